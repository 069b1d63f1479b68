// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// ensureFoundation writes the foundation of the bundle.
func (r *Reconciler) ensureFoundation(ctx context.Context, s *scope, bundle *render.Bundle) error {
	want, err := manifestwork.Foundation(bundle, s.addon, s.hub)
	if err != nil {
		return err
	}
	if err := manifestwork.RecordCreated(want, s.foundation, s.crds, s.hub); err != nil {
		return err
	}
	if jobs := strings.Join(s.finishedJobs(bundle), ","); jobs != s.annotationOfFoundation(api.FinishedJobsAnnotation) {
		want.Annotations[api.FinishedJobsAnnotation] = jobs
	}
	// The record follows the payload: a payload of former inputs would otherwise count as another rendering, which waits for its turn.
	if !manifestwork.HasOtherRendering(bundle, s.payloads) {
		want.Annotations[api.RenderingInputsAnnotation] = bundle.Inputs
	}
	// A turn for another rendering ends: a manager that renders as an earlier manager did has to wait for a new turn.
	if turn := bundle.RenderingName(); s.annotationOfFoundation(api.RenderingTurnAnnotation) == turn {
		want.Annotations[api.RenderingTurnAnnotation] = turn
	}
	// A version that was delivered and never seen to run counts as the start of the next step; so does a version that a return to the running
	// version replaces, since the cluster may have objects and Jobs of both.
	delivered := cmp.Or(s.annotationOfFoundation(api.VersionAnnotation), manifestwork.DeliveredVersion(s.component, s.payloads))
	running := s.annotationOfFoundation(api.RunningVersionAnnotation)
	if delivered != "" && delivered != bundle.Version && (running == "" || running == bundle.Version) {
		want.Annotations[api.RunningVersionAnnotation] = delivered
	}
	blocked := manifestwork.NeedsUnblocking(bundle, s.foundation, s.payloads)
	if blocked {
		want.Annotations[api.UnblockedAnnotation] = "true"
	}
	if err := r.ensureFoundationWork(ctx, s, want); err != nil || !blocked || manifestwork.IsUnblocked(s.foundation) {
		return err
	}
	r.Events.Eventf(s.addon, s.foundation, corev1.EventTypeWarning, "WebhooksUnblocked", "Repair", "%s", message.OneLine(fmt.Sprintf(
		"On cluster %q, webhooks of Knative that do not respond refuse objects, and the API server ignores failures of the webhooks until the webhooks run; refused: %s",
		s.namespace, strings.Join(manifestwork.Blocked(bundle, s.payloads), ", ")), message.MaxNote))
	return nil
}

// ensureFoundationWork creates or updates the foundation, which may be a probe, unless the foundation equals the wanted work.
func (r *Reconciler) ensureFoundationWork(ctx context.Context, s *scope, want *workv1.ManifestWork) error {
	want.Spec.Executor = r.Executor
	if s.foundation != nil && s.foundation.Spec.Executor != nil { // an administrator's executor stays
		want.Spec.Executor = s.foundation.Spec.Executor
	}
	if manifestwork.IsProbe(s.foundation) && manifestwork.IsProbe(want) {
		want.Name = s.foundation.Name // the probe of an older manager
	}
	if s.foundation == nil || s.foundation.Name != want.Name {
		return r.createWork(ctx, want)
	}
	if isUpToDate(s.foundation, want) {
		return nil
	}
	changed := s.foundation.DeepCopy()
	changed.Labels, changed.OwnerReferences, changed.Spec = labels.Merge(changed.Labels, want.Labels), want.OwnerReferences, want.Spec
	delete(changed.Labels, addonv1beta1.AddonLabelKey)
	changed.Annotations = labels.Merge(changed.Annotations, want.Annotations)
	for _, name := range passingAnnotations() {
		if _, wanted := want.Annotations[name]; !wanted {
			delete(changed.Annotations, name)
		}
	}
	return r.updateWork(ctx, changed)
}

// finishedJobs returns the Jobs of the bundle that the payload need not carry any more: the recorded Jobs, and the Jobs that the
// cluster has removed. Jobs of another version are left out: the Jobs of a version run whenever the cluster enters the version.
func (s *scope) finishedJobs(bundle *render.Bundle) []string {
	if s.foundation == nil {
		return nil
	}
	jobs := manifestwork.FinishedJobs(s.foundation)
	if slices.ContainsFunc(s.payloads, func(p *workv1.ManifestWork) bool { return manifestwork.ReportsVersion(s.component, p, bundle.Version) }) {
		for _, p := range s.payloads {
			jobs = append(jobs, manifestwork.RemovedJobs(p)...)
		}
	}
	jobs = slices.DeleteFunc(jobs, func(job string) bool {
		return !slices.ContainsFunc(bundle.Jobs, func(of workload.JobRef) bool { return job == of.Namespace+"/"+of.Name })
	})
	slices.Sort(jobs)
	return slices.Compact(jobs)
}

// annotationOfFoundation returns the value of an annotation of the foundation; empty when no foundation exists.
func (s *scope) annotationOfFoundation(name string) string {
	if s.foundation == nil {
		return ""
	}
	return s.foundation.Annotations[name]
}

// recordRunningVersion records on the foundation which version the cluster runs completely. The record decides, until the next
// version runs, which versions the cluster can reach.
func (r *Reconciler) recordRunningVersion(ctx context.Context, s *scope) error {
	recorded := s.annotationOfFoundation(api.RunningVersionAnnotation)
	if s.foundation == nil || s.foundation.DeletionTimestamp != nil || recorded == s.annotationOfFoundation(api.VersionAnnotation) {
		return nil
	}
	running := manifestwork.RunningVersion(s.component, s.payloads)
	if running == "" || running == recorded {
		return nil
	}
	return r.patchWork(ctx, s.foundation, func(w *workv1.ManifestWork) {
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, api.RunningVersionAnnotation, running)
	})
}

// passingAnnotations returns the annotations that a foundation has only between two add-ons, during a removal, as long as webhooks block
// the payload, or for one rendering.
func passingAnnotations() []string {
	return []string{api.HandoverAnnotation, api.OrphanedAnnotation, api.KeptAnnotation, api.UnblockedAnnotation, api.RenderingTurnAnnotation}
}

// isUpToDate reports whether a foundation or a probe equals the wanted work. OCM would wait for a foundation with OCM's label.
func isUpToDate(have, want *workv1.ManifestWork) bool {
	for _, name := range passingAnnotations() {
		_, there := have.Annotations[name]
		if _, wanted := want.Annotations[name]; there && !wanted {
			return false
		}
	}
	for k, v := range want.Annotations {
		if have.Annotations[k] != v {
			return false
		}
	}
	return have.Labels[api.FoundationLabel] == want.Labels[api.FoundationLabel] && have.Labels[addonv1beta1.AddonLabelKey] == "" &&
		len(have.OwnerReferences) == 1 && have.OwnerReferences[0].UID == want.OwnerReferences[0].UID &&
		!manifestwork.LacksExecutor(have, want.Spec.Executor) && manifestwork.SameManifests(have, want)
}
