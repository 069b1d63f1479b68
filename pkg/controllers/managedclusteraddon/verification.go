// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// reconcileVerification delivers the Service of the verification when the cluster runs the payload, records on the gate that the Service
// was Ready, and then removes the Service unless the Service is to be kept. recorded reports that the gate was written, which the next pass
// sees.
func (r *Reconciler) reconcileVerification(ctx context.Context, s *scope, bundle *render.Bundle) (recorded bool, err error) {
	switch {
	case bundle.Verification == nil:
		return false, r.removeVerification(ctx, s)
	case s.gate == nil, s.gate.DeletionTimestamp != nil:
		return false, nil // the gate holds the record
	}
	v := s.observeVerification(bundle)
	switch {
	case !v.Verified && s.gate.Annotations[api.VerifiedRenderingAnnotation] != "": // the cluster may get the recorded rendering again
		return true, r.recordVerification(ctx, s, "")
	case v.Verified && !bundle.Verification.Keep:
		return false, r.removeVerification(ctx, s)
	case v.Verified && s.verification == nil, !v.Verified && !v.Runs:
		return false, nil // a Service of the last verification stays until the next verification
	}
	want, err := manifestwork.Verification(bundle, s.addon, v.Rendering)
	if err != nil {
		return false, err
	}
	if written, err := r.ensureVerification(ctx, s, want); written || err != nil || v.Verified || !v.Service.IsReady(v.Rendering) {
		return false, err
	}
	return true, r.recordVerification(ctx, s, v.Rendering)
}

// observeVerification returns the facts about the verification of the bundle. A cluster that waits for its turn to get the bundle verifies
// the rendering that the cluster keeps.
func (s *scope) observeVerification(bundle *render.Bundle) *delivery.Verification {
	if manifestwork.AwaitsTurn(bundle, s.foundation, s.payloads, s.wantedConfigs()) {
		rendering := manifestwork.DeliveredRendering(s.component, s.payloads)
		return manifestwork.ObserveVerification(s.gate, s.verification, rendering, manifestwork.RunningVersion(s.component, s.payloads) != "")
	}
	runs := manifestwork.Runs(bundle, s.foundation, s.payloads)
	return manifestwork.ObserveVerification(s.gate, s.verification, bundle.RenderingName(), runs)
}

// isVerified reports whether the bundle needs no verification, or the verification has succeeded.
func (s *scope) isVerified(bundle *render.Bundle) bool {
	return bundle.Verification == nil || s.observeVerification(bundle).Verified
}

// ensureVerification writes the work of the verification, and reports whether the work was or has to be written.
func (r *Reconciler) ensureVerification(ctx context.Context, s *scope, want *workv1.ManifestWork) (written bool, err error) {
	have := s.verification
	want.Spec.Executor = r.Executor
	switch {
	case have == nil:
		return true, r.createWork(ctx, want)
	case have.DeletionTimestamp != nil:
		return true, nil // the next Service follows the deletion
	}
	if have.Spec.Executor != nil { // an administrator's executor stays
		want.Spec.Executor = have.Spec.Executor
	}
	isOwned := len(have.OwnerReferences) == 1 && have.OwnerReferences[0].UID == s.addon.UID
	if isOwned && !manifestwork.LacksExecutor(have, r.Executor) && manifestwork.SameManifests(have, want) {
		return false, nil
	}
	changed := have.DeepCopy()
	changed.Labels, changed.OwnerReferences, changed.Spec = labels.Merge(changed.Labels, want.Labels), want.OwnerReferences, want.Spec
	return true, r.updateWork(ctx, changed)
}

// recordVerification records on the gate that the verification of the rendering has succeeded; an empty rendering removes the record.
func (r *Reconciler) recordVerification(ctx context.Context, s *scope, rendering string) error {
	return r.patchWork(ctx, s.gate, func(gate *workv1.ManifestWork) {
		if rendering == "" {
			delete(gate.Annotations, api.VerifiedRenderingAnnotation)
			return
		}
		metav1.SetMetaDataAnnotation(&gate.ObjectMeta, api.VerifiedRenderingAnnotation, rendering)
	})
}

// removeVerification deletes the work of the verification, if the work exists.
func (r *Reconciler) removeVerification(ctx context.Context, s *scope) error {
	if s.verification == nil {
		return nil
	}
	return r.deleteWork(ctx, s.verification)
}

// determineVerified returns the condition Verified; nil leaves the condition unchanged. An add-on without a request for a verification
// never gets the condition.
func determineVerified(s *scope, in addon.DeliveryInput, decision addon.DeliveryDecision) *metav1.Condition {
	switch decision.State {
	case addon.AwaitingTurn, addon.AwaitingFoundation, addon.AwaitingGate, addon.Deliverable:
	default:
		return nil
	}
	out := &metav1.Condition{Type: api.Verified}
	switch {
	case in.Bundle.Verification != nil:
		out.Status, out.Reason, out.Message = s.observeVerification(in.Bundle).Describe()
	case apimeta.FindStatusCondition(s.addon.Status.Conditions, api.Verified) == nil:
		return nil
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, api.ReasonVerificationNotRequested, "no verification is requested"
	}
	return out
}
