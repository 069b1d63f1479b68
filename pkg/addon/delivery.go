// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"fmt"
	"maps"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// DeliveryState names how far the delivery to the cluster of an add-on may go.
type DeliveryState string

const (
	// Rendering means that the bundle is still being rendered: nothing is written or reported until the bundle is known.
	Rendering DeliveryState = "Rendering"
	// Paused means that the works stay as they are.
	Paused DeliveryState = "Paused"
	// Unresolved means that the cluster may not be written to: nothing new is delivered, and the installation stays.
	Unresolved DeliveryState = "Unresolved"
	// InvalidConfiguration means that the configuration yields no bundle: the installation stays until the configuration changes.
	InvalidConfiguration DeliveryState = "InvalidConfiguration"
	// Detaching means that the ManagedCluster is being deleted or is gone.
	Detaching DeliveryState = "Detaching"
	// Refused means that another installer owns the component, or the namespace for the component, on the cluster.
	Refused DeliveryState = "Refused"
	// Probing means that the probe has not yet reported the owner of the component on the cluster.
	Probing DeliveryState = "Probing"
	// AwaitingTurn means that the cluster runs the configuration, and that this manager renders the configuration differently: the works
	// stay as they are until the turn of the cluster.
	AwaitingTurn DeliveryState = "AwaitingTurn"
	// AwaitingFoundation means that the foundation of the bundle is not yet written or not yet applied.
	AwaitingFoundation DeliveryState = "AwaitingFoundation"
	// AwaitingGate means that the gate does not yet hold OCM's rollout for the configuration.
	AwaitingGate DeliveryState = "AwaitingGate"
	// Deliverable means that the payload of the bundle may be written.
	Deliverable DeliveryState = "Deliverable"
)

// DeliveryInput holds the facts that determine a delivery. A caller may leave out the facts after the deciding one, in the order
// of the fields.
type DeliveryInput struct {
	Component api.Component
	// PausedBy names the annotation that pauses the add-on; empty when the add-on is not paused.
	PausedBy string
	// Target has a Target when the cluster may be written to.
	Target resolve.Result
	// Bundle is nil when the configuration has a Fault.
	Bundle *render.Bundle
	Fault  *render.Error
	// Detaching reports that the ManagedCluster is being deleted or is gone. addon-framework checks the cluster itself.
	Detaching bool
	Ownership Ownership
	// Foundation and Gate are the works of the cluster; nil when a work does not exist.
	Foundation, Gate *workv1.ManifestWork
	// Payloads are the works that addon-framework wrote for the add-on.
	Payloads []*workv1.ManifestWork
	// Configs are the references of the add-on's status, with the hashes that OCM wants.
	Configs []addonv1beta1.ConfigReference
}

// Ownership decides whether the add-on may write the component on its cluster.
type Ownership struct {
	// Clear reports that the component belongs to the add-on, or that the cluster does not have the component.
	Clear bool
	// Refusal names the owner; nil when the owner is not known, or when Clear.
	Refusal *resolve.Result
}

// OwnershipOf derives the ownership from the foundation: the add-on's controller writes the foundation of a bundle only to a
// cluster with clear ownership.
func OwnershipOf(foundation *workv1.ManifestWork) Ownership {
	return Ownership{Clear: foundation != nil && !manifestwork.IsProbe(foundation)}
}

// DeliveryDecision is the state of a delivery. Reason is a reason of package api or render, and empty for states without a reason.
// Message names the awaited event; empty when Deliverable.
type DeliveryDecision struct {
	State           DeliveryState
	Reason, Message string
}

// DetermineDelivery decides how far the delivery may go. The controller of the add-on and addon-framework both act on the
// decision: the first writes probe, foundation and gate, the second the payload. Rendering comes before Paused, because the
// controller reports the bundle of a paused add-on too; addon-framework leaves the bundle of a paused add-on out.
func DetermineDelivery(in DeliveryInput) DeliveryDecision {
	switch {
	case IsRendering(in.Fault):
		return DeliveryDecision{Rendering, string(in.Fault.Reason), in.Fault.Message}
	case in.PausedBy != "":
		return DeliveryDecision{Paused, api.ReasonPaused, "paused by " + in.PausedBy}
	case in.Target.Target == nil:
		return DeliveryDecision{Unresolved, in.Target.Reason, fmt.Sprintf("nothing new is delivered: %s: %s", in.Target.Reason, in.Target.Message)}
	case in.Fault != nil:
		return DeliveryDecision{InvalidConfiguration, string(in.Fault.Reason), in.Fault.Message}
	case in.Detaching:
		return DeliveryDecision{Detaching, "", "the cluster is being detached from the hub"}
	case in.Ownership.Refusal != nil:
		return DeliveryDecision{Refused, in.Ownership.Refusal.Reason, in.Ownership.Refusal.Message}
	}
	awaited := awaitedFoundation(in)
	switch {
	case in.Ownership.Clear && manifestwork.AwaitsTurn(in.Bundle, in.Foundation, in.Payloads, agentdeploy.ConfigsToMap(in.Configs)):
		return DeliveryDecision{AwaitingTurn, api.ReasonRenderingWaits, fmt.Sprintf("rendering %s runs, and rendering %s waits for the turn of the cluster",
			manifestwork.DeliveredRendering(in.Component, in.Payloads), in.Bundle.RenderingName())}
	case !in.Ownership.Clear:
		return DeliveryDecision{Probing, "", awaited}
	case awaited != "":
		return DeliveryDecision{AwaitingFoundation, "", awaited}
	}
	if awaited = awaitedGate(in); awaited != "" {
		return DeliveryDecision{AwaitingGate, "", "nothing new is delivered yet: waiting for ManifestWork " + awaited}
	}
	return DeliveryDecision{State: Deliverable}
}

// awaitedFoundation describes the awaited change of the foundation; empty when the foundation of the bundle is applied.
func awaitedFoundation(in DeliveryInput) string {
	name := manifestwork.FoundationName(in.Component)
	isMissing := in.Foundation == nil || manifestwork.IsProbe(in.Foundation)
	switch {
	case in.Foundation != nil && in.Foundation.DeletionTimestamp != nil:
		return fmt.Sprintf("waiting for ManifestWork %q of an earlier installation to be removed", name)
	case isMissing && in.Ownership.Clear:
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs, to be created", name)
	case isMissing:
		return fmt.Sprintf("nothing is delivered before the probe reports whether the cluster has %s", in.Component)
	case in.Foundation.Annotations[api.DigestAnnotation] != in.Bundle.FoundationDigest:
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs, to be updated to version %s", name, in.Bundle.Version)
	}
	if applied, why := manifestwork.Applied(in.Foundation); !applied {
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs: %s", name, why)
	}
	return ""
}

// awaitedGate describes the awaited change of the gate; empty when OCM cannot take the cluster for complete before the cluster runs
// the payload: the gate does not name the configurations of the next payload, for OCM or as a record, or the cluster has these configurations
// already.
func awaitedGate(in DeliveryInput) string {
	name, wanted := manifestwork.GateName(in.Component), agentdeploy.ConfigsToMap(in.Configs)
	switch {
	case in.Gate == nil:
		return fmt.Sprintf("%q to be created", name)
	case in.Gate.DeletionTimestamp != nil:
		return fmt.Sprintf("%q to be recreated", name)
	case in.Gate.Labels[addonv1beta1.AddonLabelKey] != in.Component.AddOnName():
		return fmt.Sprintf("%q to have OCM's label", name)
	case namesConfigs(in.Gate, wanted) && manifestwork.HasOtherConfigs(in.Payloads, wanted, in.Bundle, in.Foundation):
		return fmt.Sprintf("%q to be closed: the cluster gets a former configuration again", name)
	}
	return ""
}

// namesConfigs reports whether a gate names the configurations for OCM or as a record.
func namesConfigs(gate *workv1.ManifestWork, configs map[string]string) bool {
	return maps.Equal(manifestwork.ConfigsOf(gate), configs) || maps.Equal(manifestwork.RunningConfigs(gate), configs)
}
