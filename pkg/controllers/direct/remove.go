// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// remove takes what the resource has installed from its cluster and lets the resource go.
func (r *Reconciler) remove(ctx context.Context, config *unstructured.Unstructured) (reconcile.Result, error) {
	where := r.Clusters.Name(config)
	if isTrue(config, api.ForceOrphanAnnotation) {
		r.Events.Eventf(config, nil, corev1.EventTypeWarning, "Orphaned", "Release",
			"What %s has on %s stays there, as annotation %s asks; ConfigMap %q in namespace %q lists it",
			r.Component, where, api.ForceOrphanAnnotation, anchorName(r.Component, config), installNamespace(r.Component, config))
		return reconcile.Result{}, r.release(ctx, config)
	}
	t, err := r.Clusters.Of(ctx, config)
	if unreachable := (*UnreachableError)(nil); errors.As(err, &unreachable) {
		return r.removalWaits(ctx, config, unreachable)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if by := revision.PausedByResource(r.Component, config); by != "" {
		return reconcile.Result{RequeueAfter: t.LookAgain}, r.removing(ctx, config, fmt.Sprintf(
			"nothing is removed from %s, because it is paused by %s; take it away to go on", where, by))
	}
	policy := config.GetAnnotations()[api.DeletionPolicyAnnotation]
	guarded, stop := t.guard(ctx)
	defer stop()
	i := r.installationOf(config, t)
	waiting, err := i.Remove(guarded, direct.RemoveOptions{
		Namespace:     installNamespace(r.Component, config),
		Foundation:    policy == api.DeletionPolicyDelete || policy == api.DeletionPolicyDeleteUserResources,
		UserResources: policy == api.DeletionPolicyDeleteUserResources,
	})
	if rival, foreign := (*direct.RivalError)(nil), (*direct.ForeignError)(nil); errors.As(err, &rival) || errors.As(err, &foreign) {
		return reconcile.Result{}, r.release(ctx, config) // what is there is somebody else's
	}
	if unreachable, ok := t.explain(guarded, err); ok {
		return r.removalWaits(ctx, config, unreachable)
	}
	retry := soonest(i.again(waiting), t.LookAgain)
	if blocked := (*direct.BlockedError)(nil); errors.As(err, &blocked) {
		waiting, retry, err = "it is refused: "+blocked.Error(), refusedRetry, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if waiting != "" {
		return reconcile.Result{RequeueAfter: retry}, r.removing(ctx, config, fmt.Sprintf("removing what is installed on %s: %s", where, waiting))
	}
	r.Events.Eventf(config, nil, corev1.EventTypeNormal, "Removed", "Remove", "%s of this resource is removed from %s", r.Component, where)
	return reconcile.Result{}, r.release(ctx, config)
}

// removing tells how far the removal is from a cluster that was seen.
func (r *Reconciler) removing(ctx context.Context, config *unstructured.Unstructured, text string) error {
	return r.reporter().Installation(ctx, config, &status.Installation{
		Target: status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved}, Held: true, Removing: text,
	})
}

// removalWaits tells that the cluster cannot be used, so that nothing can be removed from it.
func (r *Reconciler) removalWaits(ctx context.Context, config *unstructured.Unstructured, why *UnreachableError) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: why.Retry}, r.reporter().Installation(ctx, config, &status.Installation{
		Target: why.Finding, Held: true, Removing: fmt.Sprintf(
			"waiting for %s, from which something is to be removed; annotation %s with value \"true\" lets this resource go and leaves it there",
			r.Clusters.Name(config), api.ForceOrphanAnnotation),
	})
}

func anchorName(c api.Component, config *unstructured.Unstructured) string {
	name, err := direct.Owner{Component: c, Name: nameOf(config)}.AnchorName()
	if err != nil {
		return "" // then nothing was installed
	}
	return name
}

// release lets the resource go.
func (r *Reconciler) release(ctx context.Context, config *unstructured.Unstructured) error {
	r.forget(nameOf(config))
	err := r.setFinalizers(ctx, config, slices.DeleteFunc(slices.Clone(config.GetFinalizers()), func(f string) bool { return f == api.DirectFinalizer }))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *Reconciler) setFinalizers(ctx context.Context, config *unstructured.Unstructured, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": config.GetResourceVersion(), "uid": config.GetUID(),
	}})
	if err != nil {
		return fmt.Errorf("cannot encode the finalizers of %s %q: %w", r.Component.Kind(), nameOf(config), err)
	}
	_, err = r.Client.Resource(r.Component.Resource()).Namespace(config.GetNamespace()).Patch(
		ctx, config.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot set the finalizers of %s %q: %w", r.Component.Kind(), nameOf(config), err)
	}
	return nil
}
