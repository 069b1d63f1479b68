// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	"open-cluster-management.io/sdk-go/pkg/patcher"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// reportEligibility tells on the add-on whether the cluster can reach the version that is asked for. Other faults of the
// configuration say nothing about it.
func (r *Reconciler) reportEligibility(ctx context.Context, s *scope, fault *render.Error) error {
	condition := metav1.Condition{
		Type: api.VersionMigrationEligible, Status: metav1.ConditionTrue, Reason: api.ReasonEligible,
		Message: "the version is installed or can be reached in one step",
	}
	switch {
	case fault == nil:
	case fault.Reason == render.ReasonVersionMigrationNotEligible:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, api.ReasonNotEligible, fault.Message
	default:
		return nil
	}
	changed := s.addon.DeepCopy()
	if !apimeta.SetStatusCondition(&changed.Status.Conditions, condition) {
		return nil
	}
	p := patcher.NewPatcher[*addonv1beta1.ManagedClusterAddOn, addonv1beta1.ManagedClusterAddOnSpec, addonv1beta1.ManagedClusterAddOnStatus](
		r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addon.Namespace))
	if _, err := p.PatchStatus(ctx, changed, changed.Status, s.addon.Status); err != nil {
		return fmt.Errorf("cannot set condition %s of ManagedClusterAddOn \"%s/%s\": %w", condition.Type, s.addon.Namespace, s.addon.Name, err)
	}
	return nil
}
