// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// outcome is what an add-on's cluster should have, or why that is not known.
type outcome struct {
	bundle *render.Bundle
	fault  *render.Error
}

// available tells whether the add-on works on its cluster; nil leaves what was said before. While the cluster is out of
// sight, OCM says Unknown.
func available(s *scope, o outcome) *metav1.Condition {
	outOfSight := s.cluster == nil || slices.ContainsFunc(s.cluster.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == clusterv1.ManagedClusterConditionAvailable && c.Status == metav1.ConditionUnknown
	})
	if outOfSight || apimeta.FindStatusCondition(s.addon.Status.Conditions, addonv1beta1.ManagedClusterAddOnManifestApplied) == nil {
		return nil
	}
	say := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: addonv1beta1.ManagedClusterAddOnConditionAvailable, Status: status, Reason: reason, Message: message}
	}
	unseen := slices.ContainsFunc(s.payloads, func(p *workv1.ManifestWork) bool {
		return apimeta.FindStatusCondition(p.Status.Conditions, workv1.WorkAvailable) == nil
	})
	switch {
	case len(s.payloads) == 0:
		return say(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonWorkNotFound, "nothing is delivered yet")
	case unseen:
		return say(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonWorkNotApply, "the work agent has not reported on what is delivered yet")
	case o.fault != nil:
		return say(metav1.ConditionFalse, addonv1beta1.AddonAvailableReasonProbeUnavailable, o.fault.Message)
	}
	wrong, ok := work.Health(o.bundle, s.payloads)
	switch {
	case !ok:
		return say(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonNoProbeResult, "the work agent has not reported on any workload yet")
	case len(wrong) > 0:
		return say(metav1.ConditionFalse, addonv1beta1.AddonAvailableReasonProbeUnavailable,
			fmt.Sprintf("%s %s is not ready: %s", s.component.AddOnName(), o.bundle.Version, delivery.Summary(wrong)))
	}
	// Which version it is depends on how far an edit is, and every change of the message is a write.
	return say(metav1.ConditionTrue, addonv1beta1.AddonAvailableReasonProbeAvailable, s.component.AddOnName()+" is available")
}

// reportHeld tells whether an add-on that is being deleted, and whose removal nobody has allowed yet, still works.
func (r *Reconciler) reportHeld(ctx context.Context, s *scope) error {
	bundle, fault, err := r.bundle(ctx, s)
	if err != nil {
		return err
	}
	if c := available(s, outcome{bundle: bundle, fault: fault}); c != nil {
		return r.setConditions(ctx, s, []metav1.Condition{*c})
	}
	return nil
}
