// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"fmt"
	"maps"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/message"
)

const (
	// allManifestsApplied is the text of addon-framework for the condition ManifestApplied: with another text, this controller and
	// the framework would overwrite each other.
	allManifestsApplied = "manifests of addon are applied successfully"
	// maxRefusals is the number of refused objects that a message names.
	maxRefusals = 5
)

// determineManifestApplied returns the condition ManifestApplied; nil leaves the condition unchanged. addon-framework writes the
// condition too, in the pass that writes a payload, and names neither an object nor a cause.
func determineManifestApplied(s *scope, in addon.DeliveryInput, decision addon.DeliveryDecision) *metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: status, Reason: reason, Message: message}
	}
	isDelivered := len(s.payloads) > 0 &&
		maps.Equal(manifestwork.Delivered(s.payloads), s.wantedConfigs())
	switch decision.State {
	case addon.Unresolved, addon.InvalidConfiguration, addon.Refused:
		return say(metav1.ConditionFalse, decision.Reason, decision.Message)
	case addon.Paused:
		if !isDelivered {
			return say(metav1.ConditionFalse, decision.Reason, fmt.Sprintf(
				"%s: cluster %q keeps its installation instead of the new configuration; remove the annotation to continue", decision.Message, s.namespace))
		}
	case addon.Rendering, addon.Detaching:
		return nil
	case addon.Probing, addon.AwaitingTurn, addon.AwaitingFoundation, addon.AwaitingGate, addon.Deliverable:
	}
	if refusals := s.listRefusals(); len(refusals) > 0 {
		return say(metav1.ConditionFalse, addonv1beta1.AddonManifestAppliedReasonManifestsApplyFailed, message.ListClauses(refusals, maxRefusals))
	}
	last := apimeta.FindStatusCondition(s.addon.Status.Conditions, addonv1beta1.ManagedClusterAddOnManifestApplied)
	awaited := s.awaitedReport(in, decision, isDelivered)
	switch {
	case awaited == "":
		return say(metav1.ConditionTrue, addonv1beta1.AddonManifestAppliedReasonManifestsApplied, allManifestsApplied)
	case last != nil && last.Status == metav1.ConditionTrue && len(s.payloads) > 0:
		return nil // the next manifests are on their way
	case last != nil && last.Reason == addonv1beta1.AddonManifestAppliedReasonWorkApplyFailed && decision.State == addon.Deliverable:
		return nil // the hub has refused the work that addon-framework writes
	default:
		return say(metav1.ConditionUnknown, api.ReasonDelivering, awaited)
	}
}

// awaitedReport names the next event before the works tell whether the manifests are applied; empty when the manifests are applied.
func (s *scope) awaitedReport(in addon.DeliveryInput, decision addon.DeliveryDecision, isDelivered bool) string {
	switch {
	case decision.State == addon.Paused, decision.State == addon.AwaitingTurn:
	case decision.Message != "":
		return decision.Message
	case !isDelivered || !manifestwork.MatchBundle(s.payloads, in.Bundle, s.foundation):
		return manifestwork.AwaitedPayload(s.payloads, in.Bundle, s.foundation)
	}
	for _, p := range s.payloads {
		if applied, why := manifestwork.Applied(p); !applied {
			return fmt.Sprintf("waiting for ManifestWork %q: %s", p.Name, why)
		}
	}
	return ""
}

// listRefusals lists the objects that the agent could not apply.
func (s *scope) listRefusals() []string { return manifestwork.Refusals(s.deliveredWorks()...) }

// deliveredWorks returns the works that deliver. The probe may look for objects of kinds that the cluster lacks.
func (s *scope) deliveredWorks() []*workv1.ManifestWork {
	works := slices.Clone(s.payloads)
	if !manifestwork.IsProbe(s.foundation) {
		works = append(works, s.foundation)
	}
	return works
}

// hasReportedPayloads reports whether the agent has reported on every payload, and a payload exists.
func (s *scope) hasReportedPayloads() bool {
	return len(s.payloads) > 0 && !slices.ContainsFunc(s.payloads, func(p *workv1.ManifestWork) bool {
		return apimeta.FindStatusCondition(p.Status.Conditions, workv1.WorkAvailable) == nil
	})
}
