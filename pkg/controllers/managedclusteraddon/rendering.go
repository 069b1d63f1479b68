// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// keepRendering leaves the manifests of all works as the manifests are until the turn of the cluster. Owners and the gate follow the
// add-on as usual: OCM completes the configuration, which the cluster runs, and the fleet can go back to the configuration.
func (r *Reconciler) keepRendering(ctx context.Context, s *scope, bundle *render.Bundle) error {
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return err
	}
	if owners := s.foundation.OwnerReferences; len(owners) != 1 || owners[0].UID != s.addon.UID {
		return r.updateWork(ctx, manifestwork.OwnedBy(s.foundation, s.addon))
	}
	if recorded, err := r.reconcileVerification(ctx, s, bundle); recorded || err != nil {
		return err
	}
	if err := r.reconcileGate(ctx, s, bundle); err != nil {
		return err
	}
	if err := r.recordCompletion(ctx, s, bundle); err != nil {
		return err
	}
	r.Trigger(s.addon.Namespace, s.addon.Name)
	return nil
}

// determineRendering returns the condition RenderingCurrent; nil leaves the condition unchanged. An add-on that never waited for its
// turn never gets the condition.
func determineRendering(s *scope, in addon.DeliveryInput, decision addon.DeliveryDecision) *metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: api.RenderingCurrent, Status: status, Reason: reason, Message: message}
	}
	switch decision.State {
	case addon.AwaitingTurn:
		return say(metav1.ConditionFalse, decision.Reason, decision.Message)
	case addon.AwaitingFoundation, addon.AwaitingGate, addon.Deliverable:
	default:
		return nil
	}
	name, last := in.Bundle.RenderingName(), apimeta.FindStatusCondition(s.addon.Status.Conditions, api.RenderingCurrent)
	if !rollout.FollowsTurn(last, name, s.annotationOfFoundation(api.RenderingTurnAnnotation)) {
		return nil
	}
	if decision.State == addon.Deliverable && manifestwork.MatchBundle(s.payloads, in.Bundle, s.foundation) && manifestwork.Runs(in.Bundle, s.foundation, s.payloads) && s.isVerified(in.Bundle) {
		return say(metav1.ConditionTrue, api.ReasonRenderingRuns, rollout.RunningMessage(name))
	}
	return say(metav1.ConditionUnknown, api.ReasonRenderingDelivering, "rendering "+name+" is being delivered")
}
