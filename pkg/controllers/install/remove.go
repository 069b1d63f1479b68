// Copyright Contributors to the Open Cluster Management project

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// remove disables the add-on that the resource has, waits until it is gone, and lets the resource go. What the reference
// leads to does not matter any more: the add-on is found by name.
func (r *Reconciler) remove(ctx context.Context, s *scope) (reconcile.Result, error) {
	switch {
	case s.addOn == nil && s.foundation != nil && s.foundation.Annotations[api.HandoverAnnotation] != "":
		return reconcile.Result{RequeueAfter: handoverRetry}, nil // between two add-ons; the next one is ours again
	case !s.held():
		behind, err := r.heldOnHub(ctx, s)
		if err != nil {
			return reconcile.Result{}, err
		}
		if behind {
			return reconcile.Result{RequeueAfter: staleRetry}, nil
		}
		return reconcile.Result{}, r.release(ctx, s)
	case s.placed() && s.addOn.DeletionTimestamp == nil:
		// The cluster's Placement decides what becomes of the add-on; it only loses this configuration.
		return reconcile.Result{}, r.patchAddOn(ctx, s, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{api.InstalledForAnnotation: nil}},
			"spec":     map[string]any{"configs": r.otherConfigs(s.addOn.Spec.Configs)},
		})
	}
	if err := r.passOn(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if s.addOn.DeletionTimestamp == nil {
		err := r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addOn.Namespace).Delete(ctx, s.addOn.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &s.addOn.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("cannot delete ManagedClusterAddOn \"%s/%s\": %w", s.addOn.Namespace, s.addOn.Name, err)
		}
	}
	if err := r.resolve(s); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.reporter().Installation(ctx, s.config, &status.Installation{
		Target: findingOf(s.target), Held: true, Removing: removing(s),
	})
}

// heldOnHub asks the hub whether the add-on is the resource's after all. The cache may not know yet of one that was just
// made or taken over, and once the resource is gone nobody would remove it.
func (r *Reconciler) heldOnHub(ctx context.Context, s *scope) (bool, error) {
	if !s.refers {
		return false, nil
	}
	addOn, err := r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.ref.Name).Get(ctx, r.Component.AddOnName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot get ManagedClusterAddOn \"%s/%s\": %w", s.ref.Name, r.Component, err)
	}
	return s.has(addOn), nil
}

// passOn copies what the administrator wants for the removal from the resource to the add-on, which is removed by others, and
// takes away what was copied before and is wanted no more. What he wants of the add-on alone stays there.
func (r *Reconciler) passOn(ctx context.Context, s *scope) error {
	annotations := map[string]any{}
	before := s.addOn.Annotations[api.PassedOnAnnotation]
	copied := slices.DeleteFunc(strings.Split(before, ","), func(name string) bool { return name == "" })
	for _, name := range []string{api.ForceOrphanAnnotation, api.DeletionPolicyAnnotation} {
		want, wanted := s.config.GetAnnotations()[name]
		have, had := s.addOn.Annotations[name]
		switch {
		case wanted && (!had || have != want):
			annotations[name] = want
			copied = append(copied, name)
		case !wanted && slices.Contains(copied, name):
			annotations[name] = nil
			copied = slices.DeleteFunc(copied, func(n string) bool { return n == name })
		}
	}
	if len(annotations) == 0 {
		return nil
	}
	slices.Sort(copied)
	annotations[api.PassedOnAnnotation] = nil
	if len(copied) > 0 {
		annotations[api.PassedOnAnnotation] = strings.Join(slices.Compact(copied), ",")
	}
	return r.patchAddOn(ctx, s, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// removing says what the removal waits for.
func removing(s *scope) string {
	where := fmt.Sprintf("removing what is installed on cluster %q", s.ref.Name)
	if c := apimeta.FindStatusCondition(s.addOn.Status.Conditions, api.RemovalHeld); c != nil && c.Status == metav1.ConditionTrue {
		return where + ": " + c.Message
	}
	for _, p := range s.payloads {
		if removal, err := work.NextRemoval(p); err == nil {
			return where + ": " + removal.Why
		}
	}
	if s.foundation != nil {
		return where + ": the work agent's permissions go last"
	}
	return where
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	if s.finalized() {
		return nil
	}
	return r.patchFinalizers(ctx, s, append(slices.Clone(s.config.GetFinalizers()), api.InstallFinalizer))
}

// release lets the resource go.
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	err := r.patchFinalizers(ctx, s, slices.DeleteFunc(slices.Clone(s.config.GetFinalizers()), func(f string) bool {
		return f == api.InstallFinalizer
	}))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if s.addOn != nil {
		return nil // it is somebody else's by now, and stays
	}
	if s.config.GetAnnotations()[api.ForceOrphanAnnotation] == "true" {
		r.Events.Eventf(s.config, nil, corev1.EventTypeWarning, "Orphaned", "Release",
			"What %s has on cluster %q stays there, as annotation %s asks: see the Event Orphaned of the ManagedClusterAddOn", r.Component, s.ref.Name, api.ForceOrphanAnnotation)
		return nil
	}
	r.Events.Eventf(s.config, nil, corev1.EventTypeNormal, "Removed", "Remove", "%s of this resource is removed from cluster %q", r.Component, s.ref.Name)
	return nil
}

func (r *Reconciler) patchFinalizers(ctx context.Context, s *scope, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": s.config.GetResourceVersion(), "uid": s.config.GetUID(),
	}})
	if err != nil {
		return fmt.Errorf("cannot encode the finalizers of %s %q: %w", r.Component.Kind(), key(s), err)
	}
	changed, err := r.ConfigClient.Resource(r.Component.Resource()).Namespace(s.config.GetNamespace()).Patch(
		ctx, s.config.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil { // also when the resource is gone: nothing may be made for it
		return fmt.Errorf("cannot set the finalizers of %s %q: %w", r.Component.Kind(), key(s), err)
	}
	s.config = changed
	return nil
}
