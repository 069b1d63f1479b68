// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// Remove implements Delivery.
func (d *Direct) Remove(ctx context.Context, resource *Resource) (Outcome, error) {
	config, cluster := resource.Config, d.Clusters.DisplayName(resource.Config)
	if wait := d.takePass(config); wait > 0 {
		return Outcome{RequeueAfter: wait}, nil
	}
	if resource.Annotations.Permitted[api.ForceOrphanAnnotation] == "true" {
		d.Events.Eventf(config, nil, corev1.EventTypeWarning, "Orphaned", "Release",
			"The objects of %s stay on %s, as annotation %s requests; ConfigMap %q in namespace %q lists the objects",
			d.Component, cluster, api.ForceOrphanAnnotation, anchorName(d.Component, config), d.Clusters.InstallNamespace(config))
		return Outcome{}, d.releaseFinalizer(ctx, config)
	}
	t, err := d.findRecordedCluster(ctx, config)
	if unreachable := (*UnreachableError)(nil); errors.As(err, &unreachable) {
		return d.describeUnreachableRemoval(config, unreachable), nil
	}
	if err != nil || t == nil {
		return Outcome{}, err
	}
	if pausedBy := revision.PausedByResource(d.Component, config); pausedBy != "" {
		return describeDirectRemoval(fmt.Sprintf("nothing is removed from %s, because the resource is paused by %s; remove the annotation to continue", cluster, pausedBy)), nil
	}
	i := d.installationOf(config, t)
	if left := i.passPause.timeLeft(d.Clock.Now()); left > 0 {
		return Outcome{RequeueAfter: left}, nil
	}
	if retry, begun := d.beginPass(client.ObjectKeyFromObject(config)); !begun {
		return Outcome{RequeueAfter: retry}, nil
	}
	defer d.endPass()
	return d.removeInstallation(ctx, resource, t, i)
}

// removeInstallation takes the removal one step further on a cluster that answered a moment ago.
func (d *Direct) removeInstallation(ctx context.Context, resource *Resource, t *ReachableCluster, i *installation) (Outcome, error) {
	config, cluster := resource.Config, d.Clusters.DisplayName(resource.Config)
	policy := resource.Annotations.Permitted[api.DeletionPolicyAnnotation]
	passCtx, stop := t.watchLiveness(ctx)
	defer stop()
	waiting, err := i.Remove(passCtx, direct.RemoveOptions{
		Namespace:     d.Clusters.InstallNamespace(config),
		Foundation:    policy == api.DeletionPolicyDelete || policy == api.DeletionPolicyDeleteUserResources,
		UserResources: policy == api.DeletionPolicyDeleteUserResources,
	})
	if isNothingInstalled(err) || err == nil && waiting == "" {
		err = cmp.Or(t.confirmMissing(passCtx), err)
	}
	if isNothingInstalled(err) {
		d.Events.Eventf(config, nil, corev1.EventTypeNormal, "NothingInstalled", "Remove", "%s has no object of this resource, and nothing is removed", cluster)
		return Outcome{}, d.releaseFinalizer(ctx, config)
	}
	if unreachable, ok := t.unreachableError(passCtx, err); ok {
		return d.describeUnreachableRemoval(config, unreachable), nil
	}
	retry := i.removalRetryAfter(waiting)
	switch blocked := (*clustercache.BlockedError)(nil); {
	case err != nil && isSlow(passCtx):
		out := describeDirectRemoval(describeSlowCluster(cluster, "removal"))
		out.RequeueAfter = i.passPause.beginPause(d.Clock.Now())
		return out, nil
	case errors.As(err, &blocked):
		waiting, retry = "the cluster refuses the removal: "+blocked.Error(), refusalRetry
	case i.reportsFailure(err):
		waiting, retry = "the cluster answers with an error: "+message.Shorten(err.Error(), message.MaxNote), refusalRetry
	case err != nil:
		return Outcome{}, err
	default:
		i.passPause.endPause()
		i.failedPasses = 0
	}
	if waiting != "" {
		out := describeDirectRemoval(fmt.Sprintf("removing the installation from %s: %s", cluster, waiting))
		out.RequeueAfter = retry
		return out, nil
	}
	if resource.Annotations.Reason != "" {
		d.Events.Eventf(config, nil, corev1.EventTypeWarning, resource.Annotations.Reason, "Remove", "%s",
			message.Shorten(fmt.Sprintf("On %s, annotations had no effect: %s", cluster, resource.Annotations.Message), message.MaxNote))
	}
	d.Events.Eventf(config, nil, corev1.EventTypeNormal, "Removed", "Remove", "%s of this resource is removed from %s", d.Component, cluster)
	return Outcome{}, d.releaseFinalizer(ctx, config)
}

// isNothingInstalled reports whether the error of a removal means that the cluster has no installation of the resource: the cluster
// has none at all, or the objects belong to another owner.
func isNothingInstalled(err error) bool {
	owner, foreign := (*inventory.OwnershipError)(nil), (*inventory.UnmanagedError)(nil)
	return errors.Is(err, direct.ErrNothingInstalled) || errors.As(err, &owner) || errors.As(err, &foreign)
}

// describeDirectRemoval describes a removal from a cluster that answers.
func describeDirectRemoval(text string) Outcome {
	return Outcome{Installation: &status.Installation{
		Target: status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved}, Owned: true, Removing: text,
	}}
}

// describeUnreachableRemoval describes a removal that waits for a cluster.
func (d *Direct) describeUnreachableRemoval(config *unstructured.Unstructured, unreachable *UnreachableError) Outcome {
	return Outcome{RequeueAfter: unreachable.Retry, Installation: &status.Installation{
		Target: unreachable.Finding, Owned: true, Removing: fmt.Sprintf(
			"waiting for %s, whose installation is to be removed; annotation %s with value \"true\" ends the removal and leaves the installation on the cluster, "+
				"if rendering.trustedNamespaces of the chart lists namespace %q", d.Clusters.DisplayName(config), api.ForceOrphanAnnotation, config.GetNamespace()),
	}}
}

// anchorName returns the name of the ConfigMap that records the installation; empty when nothing was installed.
func anchorName(c api.Component, config *unstructured.Unstructured) string {
	name, err := inventory.Owner{Component: c, Name: client.ObjectKeyFromObject(config)}.AnchorName()
	if err != nil {
		return ""
	}
	return name
}

// releaseFinalizer drops the finalizer, and then the memory of the resource: a pass that repeats a refused write knows that the removal has ended.
func (d *Direct) releaseFinalizer(ctx context.Context, config *unstructured.Unstructured) error {
	resources := d.ConfigClient.Resource(d.Component.Resource()).Namespace(config.GetNamespace())
	_, err := hub.Patch(ctx, resources, config, func(changed *unstructured.Unstructured) {
		controllerutil.RemoveFinalizer(changed, d.Finalizer())
	})
	if err = client.IgnoreNotFound(err); err == nil {
		d.Forget(client.ObjectKeyFromObject(config))
	}
	return err
}
