// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	"open-cluster-management.io/sdk-go/pkg/patcher"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// report tells on the add-on whether it is Available, whether its cluster was seen and may be written to, and whether the
// cluster can reach the version that is asked for. Other faults of the configuration say nothing about the latter.
func (r *Reconciler) report(ctx context.Context, s *scope, target resolve.Result, o outcome) error {
	fault := o.fault
	conditions := []metav1.Condition{{
		Type: api.TargetClusterResolved, Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved, Message: "the cluster was seen",
	}}
	if !target.Resolved() {
		conditions[0].Status, conditions[0].Reason, conditions[0].Message = metav1.ConditionFalse, target.Reason, target.Message
	}
	for _, c := range []*metav1.Condition{available(s, o), valuesResolved(s, fault)} {
		if c != nil {
			conditions = append(conditions, *c)
		}
	}
	switch {
	case fault == nil:
		conditions = append(conditions, metav1.Condition{
			Type: api.VersionMigrationEligible, Status: metav1.ConditionTrue, Reason: api.ReasonEligible,
			Message: "the version is installed or can be reached in one step",
		})
	case fault.Reason == render.ReasonVersionMigrationNotEligible:
		conditions = append(conditions, metav1.Condition{
			Type: api.VersionMigrationEligible, Status: metav1.ConditionFalse, Reason: api.ReasonNotEligible, Message: fault.Message,
		})
	}
	return r.setConditions(ctx, s, conditions)
}

// valuesResolved tells whether the cluster has the values that its configuration uses. An add-on on which none was ever
// missing has no such condition; nil leaves it as it is.
func valuesResolved(s *scope, fault *render.Error) *metav1.Condition {
	switch {
	case fault != nil && fault.Reason == render.ReasonValueMissing:
		return &metav1.Condition{Type: api.ValuesResolved, Status: metav1.ConditionFalse, Reason: api.ReasonValueMissing, Message: fault.Message}
	case fault == nil && apimeta.FindStatusCondition(s.addon.Status.Conditions, api.ValuesResolved) != nil:
		return &metav1.Condition{
			Type: api.ValuesResolved, Status: metav1.ConditionTrue, Reason: api.ReasonValuesFound,
			Message: "the cluster has every value that its configuration uses",
		}
	default:
		return nil
	}
}

// reportRemoval tells on an add-on whose removal was allowed whether anything keeps it still.
func (r *Reconciler) reportRemoval(ctx context.Context, s *scope) error {
	c := metav1.Condition{
		Type: api.RemovalHeld, Status: metav1.ConditionFalse, Reason: api.ReasonRemovalAllowed, Message: "the installation is being removed",
	}
	if len(s.payloads) == 0 && s.foundation != nil && s.foundation.DeletionTimestamp == nil && s.awaitsAgent() {
		_, why := work.Applied(s.foundation)
		c.Message = fmt.Sprintf("waiting for the work agent to apply what becomes of CRDs and Namespace: %s", why)
	}
	if s.keepsWaiting() {
		c.Status, c.Reason = metav1.ConditionTrue, api.ReasonUserResourcesUnknown
		c.Message = fmt.Sprintf(
			"everything but CRDs and Namespace is removed from cluster %q, and the hub cannot tell whether users have resources there: kubectl get knative --all-namespaces lists them on the cluster; set annotation %s of %s to %s to remove CRDs and Namespace with all that is in them, or take it away to keep them",
			s.addon.Namespace, api.DeletionPolicyAnnotation, s.asks(), api.DeletionPolicyDeleteUserResources)
	}
	return r.setConditions(ctx, s, []metav1.Condition{c})
}

// asks is the object whose deletion policy counts: the add-on's is overwritten where it is the resource's.
func (s *scope) asks() string {
	passedOn := strings.Split(s.addon.Annotations[api.PassedOnAnnotation], ",")
	if slices.Contains(passedOn, api.DeletionPolicyAnnotation) {
		return fmt.Sprintf("%s %q", s.component.Kind(), s.addon.Annotations[api.InstalledForAnnotation])
	}
	return fmt.Sprintf("ManagedClusterAddOn %q", s.addon.Namespace+"/"+s.addon.Name)
}

// reportPause tells on an add-on that is to go what keeps it.
func (r *Reconciler) reportPause(ctx context.Context, s *scope, by string) error {
	return r.setConditions(ctx, s, []metav1.Condition{{
		Type: api.RemovalHeld, Status: metav1.ConditionTrue, Reason: api.ReasonPaused,
		Message: fmt.Sprintf("nothing is removed from cluster %q, because it is paused by %s; take it away to go on", s.addon.Namespace, by),
	}})
}

func (r *Reconciler) setConditions(ctx context.Context, s *scope, conditions []metav1.Condition) error {
	changed := s.addon.DeepCopy()
	differs := false
	for _, c := range conditions {
		differs = apimeta.SetStatusCondition(&changed.Status.Conditions, c) || differs
	}
	if !differs {
		return nil
	}
	p := patcher.NewPatcher[*addonv1beta1.ManagedClusterAddOn, addonv1beta1.ManagedClusterAddOnSpec, addonv1beta1.ManagedClusterAddOnStatus](
		r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addon.Namespace))
	if _, err := p.PatchStatus(ctx, changed, changed.Status, s.addon.Status); err != nil {
		return fmt.Errorf("cannot set conditions of ManagedClusterAddOn \"%s/%s\": %w", s.addon.Namespace, s.addon.Name, err)
	}
	return nil
}
