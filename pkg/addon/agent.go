// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/addon-framework/pkg/agent"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// Bundles renders the configurations of add-ons.
type Bundles interface {
	// Bundle returns the bundle of the add-on's configuration. The message of an error names the fault and the remedy.
	Bundle(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error)
}

// Targets decides whether the cluster of an add-on may be written to.
type Targets interface {
	// OfAddOn returns a result with a Target when the cluster may be written to, also when the cluster is unreachable.
	OfAddOn(addon *addonv1beta1.ManagedClusterAddOn) (resolve.Result, error)
}

// Pauses decides whether the cluster of an add-on may be changed.
type Pauses interface {
	// PausedBy names the annotation that pauses the add-on; empty when the add-on is not paused.
	PausedBy(addon *addonv1beta1.ManagedClusterAddOn) string
}

// Permissions decides which actions besides an installation an add-on may take on its cluster. An administrator, or a resource in a
// namespace that the administrator trusts, requests such an action.
type Permissions interface {
	// Adopts reports whether the add-on takes over the installation of another installer on the cluster.
	Adopts(addon *addonv1beta1.ManagedClusterAddOn) bool
	// EntersNamespaces reports whether the add-on may be installed into a namespace that the cluster had before. The default
	// namespace of the component needs no permission.
	EntersNamespaces(addon *addonv1beta1.ManagedClusterAddOn) bool
	// Removal returns the value of an annotation that decides how the installation is removed; empty when the value does not count.
	Removal(addon *addonv1beta1.ManagedClusterAddOn, annotation string) string
}

// Works lists the works of the add-ons.
type Works struct {
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	// Executor is the executor of works without an executor; nil means that the agent applies the works with its own permissions.
	Executor *workv1.ManifestWorkExecutor
}

// Agent is the add-on of a component.
type Agent struct {
	component api.Component
	bundles   Bundles
	targets   Targets
	pauses    Pauses
	works     Works
	// configs are the manifest configs of every payload.
	configs []workv1.ManifestConfigOption
}

var _ agent.AgentAddon = (*Agent)(nil)

// New returns the add-on of a component.
func New(component api.Component, bundles Bundles, targets Targets, pauses Pauses, works Works) *Agent {
	return &Agent{component: component, bundles: bundles, targets: targets, pauses: pauses, works: works, configs: manifestwork.PayloadConfigs()}
}

// Manifests implements agent.AgentAddon: it returns the payload of the cluster as soon as the payload may be delivered.
func (a *Agent) Manifests(ctx context.Context, _ *clusterv1.ManagedCluster, addon *addonv1beta1.ManagedClusterAddOn) ([]runtime.Object, error) {
	in, err := a.gatherDelivery(ctx, addon)
	if err != nil {
		return nil, err
	}
	switch decision := DetermineDelivery(in); decision.State {
	case Paused:
		return a.pausedManifests(addon, in.PausedBy)
	case AwaitingTurn:
		return deliveredManifests(in.Payloads)
	case Deliverable:
		return manifestwork.NextPayload(in.Payloads, in.Bundle, in.Foundation)
	default: // an error keeps the installation
		return nil, errors.New(decision.Message)
	}
}

// gatherDelivery reads the facts that determine the delivery of the payload, up to the deciding fact: a paused add-on, and an
// add-on without a target, need no bundle.
func (a *Agent) gatherDelivery(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) (DeliveryInput, error) {
	in := DeliveryInput{Component: a.component, PausedBy: a.pauses.PausedBy(addon), Configs: addon.Status.ConfigReferences}
	if in.PausedBy != "" {
		return in, nil
	}
	var err error
	if in.Target, err = a.targets.OfAddOn(addon); err != nil || in.Target.Target == nil {
		return in, err
	}
	if in.Bundle, in.Fault, err = DetermineBundle(ctx, a.bundles, addon); err != nil || in.Fault != nil {
		return in, err
	}
	if in.Foundation, err = a.findWork(addon.Namespace, manifestwork.FoundationName(a.component)); err != nil {
		return in, err
	}
	in.Ownership = OwnershipOf(in.Foundation)
	if in.Payloads, err = listPayloads(a.works.Payloads, addon); err != nil {
		return in, err
	}
	in.Gate, err = a.findWork(addon.Namespace, manifestwork.GateName(a.component))
	return in, err
}

// findWork returns a work of the add-on's controller; nil when the work does not exist.
func (a *Agent) findWork(cluster, name string) (*workv1.ManifestWork, error) {
	found, err := a.works.Foundations.ManifestWorks(cluster).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ManifestWork %q: %w", name, err)
	}
	return found, nil
}

// SupportedConfigs returns the resources that configure the add-on of a component.
func SupportedConfigs(c api.Component) []schema.GroupVersionResource {
	return []schema.GroupVersionResource{c.Resource(), utils.AddOnDeploymentConfigGVR}
}

// GetAgentAddonOptions implements agent.AgentAddon.
func (a *Agent) GetAgentAddonOptions() agent.AgentAddonOptions {
	return agent.AgentAddonOptions{
		AddonName: a.component.AddOnName(),
		// The add-on has no agent on the cluster, and therefore no registration.
		Registration: nil,
		// Package managedclusteraddon sets the condition Available: the framework would derive Available from the works alone, and
		// works are Available while old pods serve.
		HealthProber:        &agent.HealthProber{Type: agent.HealthProberTypeNone},
		SupportedConfigGVRs: SupportedConfigs(a.component),
		ManifestConfigs:     a.configs,
		// A change of the cluster's availability triggers a sync.
		AgentDeployTriggerClusterFilter: utils.ClusterAvailableConditionChanged,
	}
}
