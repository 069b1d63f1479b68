// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// ensureFinalizer holds the add-on before anything of it is delivered.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	if slices.Contains(s.addon.Finalizers, api.FoundationFinalizer) {
		return nil
	}
	return r.patchFinalizers(ctx, s, append(slices.Clone(s.addon.Finalizers), api.FoundationFinalizer))
}

func (r *Reconciler) releaseFinalizer(ctx context.Context, s *scope) error {
	return r.patchFinalizers(ctx, s, slices.DeleteFunc(slices.Clone(s.addon.Finalizers), func(f string) bool {
		return f == api.FoundationFinalizer
	}))
}

// patchFinalizers replaces the list, and fails when the add-on has changed since it was read.
func (r *Reconciler) patchFinalizers(ctx context.Context, s *scope, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": s.addon.ResourceVersion, "uid": s.addon.UID,
	}})
	if err != nil {
		return fmt.Errorf("cannot encode the finalizers of ManagedClusterAddOn %q: %w", s.addon.Name, err)
	}
	_, err = r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addon.Namespace).Patch(
		ctx, s.addon.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot set the finalizers of ManagedClusterAddOn \"%s/%s\": %w", s.addon.Namespace, s.addon.Name, err)
	}
	return nil
}

// ensureProbe has the work agent look what the cluster has. A gate is for what is installed.
func (r *Reconciler) ensureProbe(ctx context.Context, s *scope, bundle *render.Bundle) error {
	if s.gate != nil {
		if err := r.delete(ctx, s.gate); err != nil {
			return err
		}
	}
	want, err := work.Probe(bundle, s.addon)
	if err != nil {
		return err
	}
	return r.ensure(ctx, s, want)
}

// ensureFoundation has the foundation of the bundle.
func (r *Reconciler) ensureFoundation(ctx context.Context, s *scope, bundle *render.Bundle, hub types.UID) error {
	want, err := work.Foundation(bundle, s.addon, hub)
	if err != nil {
		return err
	}
	if jobs := s.finishedJobs(); len(jobs) > 0 {
		want.Annotations[api.FinishedJobsAnnotation] = strings.Join(jobs, ",")
	}
	return r.ensure(ctx, s, want)
}

// ensure writes a foundation unless it is there as it should be.
func (r *Reconciler) ensure(ctx context.Context, s *scope, want *workv1.ManifestWork) error {
	works := r.WorkClient.WorkV1().ManifestWorks(want.Namespace)
	if s.foundation == nil {
		if _, err := works.Create(ctx, want, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create ManifestWork \"%s/%s\": %w", want.Namespace, want.Name, err)
		}
		return nil
	}
	if s.foundation.DeletionTimestamp != nil {
		return fmt.Errorf("cannot deliver to cluster %q yet: ManifestWork %q of an earlier installation is being removed", want.Namespace, want.Name)
	}
	if upToDate(s.foundation, want) {
		return nil
	}
	changed := s.foundation.DeepCopy()
	changed.Labels, changed.OwnerReferences, changed.Spec = merged(changed.Labels, want.Labels), want.OwnerReferences, want.Spec
	changed.Annotations = merged(changed.Annotations, want.Annotations)
	for _, name := range betweenAddOns() {
		delete(changed.Annotations, name)
	}
	if _, err := works.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot update ManifestWork \"%s/%s\": %w", want.Namespace, want.Name, err)
	}
	return nil
}

// finishedJobs are the Jobs that the payload need not carry any more: recorded ones, and those that are gone by now.
func (s *scope) finishedJobs() []string {
	if s.foundation == nil {
		return nil
	}
	jobs := work.FinishedJobs(s.foundation)
	for _, p := range s.payloads {
		jobs = append(jobs, work.RemovedJobs(p)...)
	}
	slices.Sort(jobs)
	return slices.Compact(jobs)
}

// betweenAddOns are the annotations that a foundation has between two add-ons, or on its way out.
func betweenAddOns() []string {
	return []string{api.HandoverAnnotation, api.OrphanedAnnotation, api.KeptAnnotation}
}

// inherits tells that the add-on follows one that had a configuration of its own, and has none: OCM makes add-ons without.
func (s *scope) inherits() bool {
	if s.foundation == nil || len(s.addon.Spec.Configs) > 0 {
		return false
	}
	configs := s.foundation.Annotations[api.HandoverAnnotation]
	return configs != "" && configs != "[]"
}

// inheritConfigs gives the add-on the configuration of the one before it.
func (r *Reconciler) inheritConfigs(ctx context.Context, s *scope) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.addon.ResourceVersion, "uid": s.addon.UID},
		"spec":     map[string]any{"configs": json.RawMessage(s.foundation.Annotations[api.HandoverAnnotation])},
	})
	if err != nil {
		return fmt.Errorf("cannot read annotation %s of ManifestWork \"%s/%s\": %w", api.HandoverAnnotation, s.namespace, s.foundation.Name, err)
	}
	_, err = r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.namespace).Patch(ctx, s.addon.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot set the configs of ManagedClusterAddOn \"%s/%s\": %w", s.namespace, s.addon.Name, err)
	}
	return nil
}

func upToDate(have, want *workv1.ManifestWork) bool {
	for _, name := range betweenAddOns() {
		if _, there := have.Annotations[name]; there {
			return false
		}
	}
	for k, v := range want.Annotations {
		if have.Annotations[k] != v {
			return false
		}
	}
	return have.Labels[api.FoundationLabel] == want.Labels[api.FoundationLabel] &&
		len(have.OwnerReferences) == 1 && have.OwnerReferences[0].UID == want.OwnerReferences[0].UID &&
		work.SameManifests(have, want)
}

func merged(base, over map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}
