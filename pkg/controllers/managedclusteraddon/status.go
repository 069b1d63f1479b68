// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// reportDelivery sets the conditions of the add-on. Faults of the configuration without a statement about a condition leave the
// condition unchanged.
func (r *Reconciler) reportDelivery(ctx context.Context, s *scope, in addon.DeliveryInput, decision addon.DeliveryDecision) error {
	fault, target := in.Fault, reportedTarget(in)
	if target.Reason == api.ReasonConfigNotGranted {
		r.noteRefusedConfig(s, target.Message)
	}
	conditions := []metav1.Condition{{
		Type: api.TargetClusterResolved, Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved, Message: "the cluster was seen",
	}, {
		// The add-on has no agent that registers. addon-framework delivers nothing without this condition, and would write the same text.
		Type: addonv1beta1.ManagedClusterAddOnRegistrationApplied, Status: metav1.ConditionTrue,
		Reason: addonv1beta1.RegistrationAppliedNilRegistration, Message: "Registration of the addon agent is configured",
	}}
	if !target.Resolved() {
		conditions[0].Status, conditions[0].Reason, conditions[0].Message = metav1.ConditionFalse, target.Reason, target.Message
	}
	bundle := in.Bundle
	if decision.State == addon.AwaitingTurn {
		bundle = nil // the payloads describe the rendering of the cluster
	}
	available, err := determineAvailable(s, bundle)
	if err != nil {
		return err
	}
	for _, c := range []*metav1.Condition{
		available, determineManifestApplied(s, in, decision), determineDegraded(s, fault), determineValuesResolved(s, fault),
		determineDependencies(s), determineRendering(s, in, decision), determineVerified(s, in, decision),
	} {
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
	case fault.Reason == api.ReasonNotEligible:
		conditions = append(conditions, metav1.Condition{
			Type: api.VersionMigrationEligible, Status: metav1.ConditionFalse, Reason: api.ReasonNotEligible, Message: fault.Message,
		})
	}
	return r.setConditions(ctx, s, conditions)
}

// reportedTarget returns the result that TargetClusterResolved reports. Besides an unresolved target, the condition reports another
// owner of the component, and a configuration that the hub did not give to the add-on.
func reportedTarget(in addon.DeliveryInput) resolve.Result {
	switch {
	case in.Target.Resolved() && in.Ownership.Refusal != nil:
		return *in.Ownership.Refusal
	case in.Target.Resolved() && in.Fault != nil && in.Fault.Reason == api.ReasonConfigNotGranted:
		return resolve.Result{Reason: api.ReasonConfigNotGranted, Message: in.Fault.Message}
	default:
		return in.Target
	}
}

// isOutOfSight reports whether the cluster is unreachable, and OCM therefore sets the condition Available of every add-on to Unknown.
func (s *scope) isOutOfSight() bool {
	return s.cluster == nil || slices.ContainsFunc(s.cluster.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == clusterv1.ManagedClusterConditionAvailable && c.Status == metav1.ConditionUnknown
	})
}

func availableCondition(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: addonv1beta1.ManagedClusterAddOnConditionAvailable, Status: status, Reason: reason, Message: message}
}

// determineAvailable returns the condition Available; nil leaves the condition unchanged. A configuration that yields no bundle stops
// no workload: the payloads then name the expected workloads.
func determineAvailable(s *scope, bundle *render.Bundle) (*metav1.Condition, error) {
	switch {
	case s.isOutOfSight():
		return nil, nil
	case len(s.payloads) == 0:
		return availableCondition(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonWorkNotFound, "nothing is delivered yet"), nil
	case !s.hasReportedPayloads():
		return availableCondition(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonWorkNotApply, "the work agent has not reported on the delivered objects yet"), nil
	}
	workloads, err := expectedWorkloads(bundle, s.payloads)
	if err != nil {
		return nil, err
	}
	wrong, ok := manifestwork.Health(workloads, s.payloads)
	switch {
	case !ok:
		return availableCondition(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonNoProbeResult, "the work agent has not reported on any workload yet"), nil
	case len(wrong) > 0:
		return availableCondition(metav1.ConditionFalse, addonv1beta1.AddonAvailableReasonProbeUnavailable,
			fmt.Sprintf("%s is not ready: %s", s.describeVersion(bundle), delivery.Summary(wrong))), nil
	}
	// The message leaves the version out, because the version changes with each edit and every change of a message is a write.
	return availableCondition(metav1.ConditionTrue, addonv1beta1.AddonAvailableReasonProbeAvailable, s.component.AddOnName()+" is available"), nil
}

// describeVersion names the component and the version that the cluster should run.
func (s *scope) describeVersion(bundle *render.Bundle) string {
	version := s.annotationOfFoundation(api.VersionAnnotation)
	if bundle != nil {
		version = bundle.Version
	}
	return strings.TrimSpace(s.component.AddOnName() + " " + version)
}

// determineDegraded returns the condition Degraded; nil leaves the condition unchanged. An add-on whose configurations were always
// applied never gets the condition.
func determineDegraded(s *scope, fault *render.Error) *metav1.Condition {
	degraded := &metav1.Condition{Type: api.Degraded, Status: metav1.ConditionFalse, Reason: api.ReasonConfigurationUsable}
	switch {
	case fault == nil && apimeta.FindStatusCondition(s.addon.Status.Conditions, api.Degraded) != nil:
		degraded.Message = "the configuration yields manifests"
	case fault != nil && fault.Reason != api.FaultConfigPending && len(s.payloads) > 0:
		degraded.Status, degraded.Reason = metav1.ConditionTrue, api.ReasonConfigurationRefused
		degraded.Message = fmt.Sprintf("the configuration is not applied, and cluster %q keeps %s: %s: %s",
			s.namespace, s.describeVersion(nil), fault.Reason, fault.Message)
	default:
		return nil
	}
	return degraded
}

// determineValuesResolved returns the condition about the values of the cluster that the configuration uses; nil leaves the condition
// unchanged. An add-on without a missing value never gets the condition.
func determineValuesResolved(s *scope, fault *render.Error) *metav1.Condition {
	switch {
	case fault != nil && fault.Reason == api.ReasonValueMissing:
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

// determineDependencies returns the condition about the kinds that Knative needs besides its own kinds; nil leaves the condition
// unchanged. An add-on whose cluster always knew every kind never gets the condition.
func determineDependencies(s *scope) *metav1.Condition {
	unserved := manifestwork.UnservedObjects(s.deliveredWorks()...)
	switch {
	case len(unserved) > 0:
		return &metav1.Condition{
			Type: api.DependenciesInstalled, Status: metav1.ConditionFalse, Reason: api.ReasonKindMissing,
			Message: "the cluster does not know the kind of: " + message.ListClauses(unserved, maxRefusals) + "; install what brings it",
		}
	case s.hasReportedPayloads() && apimeta.FindStatusCondition(s.addon.Status.Conditions, api.DependenciesInstalled) != nil:
		return &metav1.Condition{
			Type: api.DependenciesInstalled, Status: metav1.ConditionTrue, Reason: api.ReasonNothingMissing,
			Message: "the cluster knows every kind that Knative needs",
		}
	default:
		return nil
	}
}

// reportHeld reports whether an add-on that is being deleted, and whose removal is not allowed yet, still works.
func (r *Reconciler) reportHeld(ctx context.Context, s *scope) (reconcile.Result, error) {
	bundle, fault, err := addon.DetermineBundle(ctx, r.Bundles, s.addon)
	if err != nil {
		return reconcile.Result{}, err
	}
	if addon.IsRendering(fault) {
		return reconcile.Result{RequeueAfter: pendingRetry}, nil
	}
	c, err := determineAvailable(s, bundle)
	if err != nil || c == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.setConditions(ctx, s, []metav1.Condition{*c})
}

// reportRemoval sets the condition RemovalHeld of an add-on whose removal is allowed.
func (r *Reconciler) reportRemoval(ctx context.Context, s *scope) error {
	c := metav1.Condition{
		Type: api.RemovalHeld, Status: metav1.ConditionFalse, Reason: api.ReasonRemovalAllowed, Message: "the installation is being removed",
	}
	if !s.isClusterAvailable() {
		agent := fmt.Sprintf("the work agent of cluster %q is not connected, and continues when the cluster returns", s.namespace)
		if s.isClusterDetaching() && !s.isAgentLost() {
			agent = fmt.Sprintf("OCM reports each cluster as unavailable some minutes after its detachment, so that the work agent of cluster %q may be connected and continue", s.namespace)
		}
		c.Message += fmt.Sprintf("; %s; if the cluster never returns, set annotation %s of ManagedClusterAddOn \"%s/%s\" to \"true\"",
			agent, api.ForceOrphanAnnotation, s.namespace, s.addon.Name)
	}
	if len(s.payloads) == 0 && s.foundation != nil && s.foundation.DeletionTimestamp == nil && s.awaitsAgentApply() {
		_, why := manifestwork.Applied(s.foundation)
		c.Message = fmt.Sprintf("waiting for the work agent to apply the deletion policy of CRDs and Namespace: %s", why)
	}
	if s.crds != nil && s.crds.DeletionTimestamp != nil {
		c.Message += ": " + manifestwork.DescribeDeletion(s.crds)
	}
	if len(s.payloads) == 0 && s.foundation != nil && s.foundation.DeletionTimestamp != nil {
		c.Message += ": " + manifestwork.DescribeDeletion(s.foundation)
	}
	if s.awaitsDeletionPolicy() {
		c.Status, c.Reason = metav1.ConditionTrue, api.ReasonUserResourcesUnknown
		c.Message = s.describeAwaitedPolicy()
	}
	before := apimeta.FindStatusCondition(s.addon.Status.Conditions, api.RemovalHeld)
	conditions := []metav1.Condition{c}
	isComplete := s.awaitsDeletionPolicy() && len(s.payloads) > 0 // the workloads run until the decision
	if !s.isOutOfSight() && !isComplete {
		conditions = append(conditions, *availableCondition(metav1.ConditionFalse, api.ReasonRemoving, s.component.AddOnName()+" is being removed"))
	}
	err := r.setConditions(ctx, s, conditions)
	if err == nil && c.Reason == api.ReasonRemovalAllowed && (before == nil || before.Status == metav1.ConditionTrue) {
		r.Events.Eventf(s.addon, nil, corev1.EventTypeNormal, "RemovalBegun", "Remove",
			"The manager removes %s from cluster %q", s.component, s.addon.Namespace)
	}
	return err
}

// describeAwaitedPolicy names the decision that a removal with policy Delete needs.
func (s *scope) describeAwaitedPolicy() string {
	state := "everything but CRDs and Namespace is removed from"
	if len(s.payloads) > 0 {
		state = fmt.Sprintf("%s still runs on", s.component)
	}
	return fmt.Sprintf(
		"%s cluster %q, and the hub cannot tell whether users have resources there: kubectl get knative --all-namespaces lists the resources on the cluster; set annotation %s of %s to %s to remove CRDs and Namespace with all resources of users, or remove the annotation to keep CRDs and Namespace",
		state, s.addon.Namespace, api.DeletionPolicyAnnotation, s.deletionPolicyOwner(), api.DeletionPolicyDeleteUserResources)
}

// deletionPolicyOwner names the object to annotate with a deletion policy: the resource, where the resource passes its policy on to
// the add-on, otherwise the add-on.
func (s *scope) deletionPolicyOwner() string {
	passedOn := strings.Split(s.addon.Annotations[api.PassedOnAnnotation], ",")
	if slices.Contains(passedOn, api.DeletionPolicyAnnotation) {
		return fmt.Sprintf("%s %q", s.component.Kind(), s.addon.Annotations[api.InstalledForAnnotation])
	}
	return fmt.Sprintf("ManagedClusterAddOn %q", s.addon.Namespace+"/"+s.addon.Name)
}

// reportPause sets the condition RemovalHeld of an add-on that is paused during a removal.
func (r *Reconciler) reportPause(ctx context.Context, s *scope, by string) error {
	return r.setConditions(ctx, s, []metav1.Condition{{
		Type: api.RemovalHeld, Status: metav1.ConditionTrue, Reason: api.ReasonPaused,
		Message: fmt.Sprintf("nothing is removed from cluster %q, because the add-on is paused by %s; remove the annotation to continue", s.addon.Namespace, by),
	}})
}

// messageLimit is the greatest number of bytes in the message of a condition. Kubernetes refuses messages of more than eight times the
// limit.
const messageLimit = 4096

// detailInterval is the time after a write of conditions before the next write that changes only details: during an installation, the message
// of ManifestApplied names one step after another, and the message of Available follows every workload that begins to run.
const detailInterval = 5 * time.Second

// changesOnlyDetails reports whether the conditions differ from the conditions of the add-on only by messages, and by the reasons of conditions that
// stay Unknown.
func changesOnlyDetails(a *addonv1beta1.ManagedClusterAddOn, conditions []metav1.Condition) bool {
	differs := false
	for i := range conditions {
		last := apimeta.FindStatusCondition(a.Status.Conditions, conditions[i].Type)
		if last == nil || last.Status != conditions[i].Status || last.Reason != conditions[i].Reason && last.Status != metav1.ConditionUnknown {
			return false
		}
		differs = differs || last.Reason != conditions[i].Reason || last.Message != conditions[i].Message
	}
	return differs && a.Status.HealthCheck.Mode == addonv1beta1.HealthCheckModeCustomized
}

// setConditions writes conditions of the add-on. Details alone wait for detailInterval, which the pass then records in the scope.
func (r *Reconciler) setConditions(ctx context.Context, s *scope, conditions []metav1.Condition) error {
	for i := range conditions {
		conditions[i].Message = message.OneLine(conditions[i].Message, messageLimit) // the message may repeat a text from the cluster
	}
	if changesOnlyDetails(s.addon, conditions) {
		if wait := r.takeDetails(s); wait > 0 {
			s.detailDelay = wait
			return nil
		}
	}
	written, err := hub.Patch(ctx, r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addon.Namespace), s.addon,
		func(a *addonv1beta1.ManagedClusterAddOn) {
			a.Status.HealthCheck.Mode = addonv1beta1.HealthCheckModeCustomized // else the work agent looks for a Lease of the add-on
			a.Status.SupportedConfigs = supportedConfigs(s.component)
			for _, c := range conditions {
				apimeta.SetStatusCondition(&a.Status.Conditions, c)
			}
		}, "status")
	if err != nil {
		return err
	}
	if written != s.addon {
		r.takeDetails(s)
	}
	s.addon = written // a later write of the pass would otherwise fail with a Conflict
	return nil
}

// takeDetails returns 0 when details of conditions may be written now, and otherwise the time until the write.
func (r *Reconciler) takeDetails(s *scope) time.Duration {
	return r.details.Take(types.NamespacedName{Namespace: s.addon.Namespace, Name: s.addon.Name}, r.Clock.Now(), detailInterval, 1)
}

// supportedConfigs returns the resources that configure an add-on, as OCM reads them in the status of the add-on.
func supportedConfigs(c api.Component) []addonv1beta1.ConfigGroupResource {
	var out []addonv1beta1.ConfigGroupResource
	for _, resource := range addon.SupportedConfigs(c) {
		out = append(out, addonv1beta1.ConfigGroupResource{Group: resource.Group, Resource: resource.Resource})
	}
	return out
}
