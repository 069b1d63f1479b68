// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
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
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// Bundles finds what an add-on should put on its cluster.
type Bundles interface {
	// Bundle is the bundle of the add-on's configuration. Its errors say what is wrong and what to do.
	Bundle(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error)
}

// Targets tells whether an add-on's cluster may be written to.
type Targets interface {
	// OfAddOn has a Target when it may be, also when the cluster is out of sight.
	OfAddOn(addon *addonv1beta1.ManagedClusterAddOn) (resolve.Result, error)
}

// Pauses tells whether an add-on's cluster may be changed.
type Pauses interface {
	// PausedBy says what keeps the cluster as it is; it is empty when nothing does.
	PausedBy(addon *addonv1beta1.ManagedClusterAddOn) string
}

// Adoptions tells whether what somebody else has installed is to be taken over.
type Adoptions interface {
	Adopts(addon *addonv1beta1.ManagedClusterAddOn) bool
}

// Works are the works of the add-ons.
type Works struct {
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
}

// Agent is one of the two add-ons.
type Agent struct {
	component api.Component
	bundles   Bundles
	targets   Targets
	pauses    Pauses
	works     Works
	// configs are those of every payload.
	configs []workv1.ManifestConfigOption
}

var _ agent.AgentAddon = (*Agent)(nil)

// New makes the add-on of a component.
func New(component api.Component, bundles Bundles, targets Targets, pauses Pauses, works Works) *Agent {
	return &Agent{component: component, bundles: bundles, targets: targets, pauses: pauses, works: works, configs: work.PayloadConfigs()}
}

// Manifests implements agent.AgentAddon: the payload of the cluster, as soon as its foundation is applied.
func (a *Agent) Manifests(ctx context.Context, _ *clusterv1.ManagedCluster, addon *addonv1beta1.ManagedClusterAddOn) ([]runtime.Object, error) {
	if by := a.pauses.PausedBy(addon); by != "" {
		return a.delivered(addon, by)
	}
	bundle, foundation, err := a.wanted(ctx, addon)
	if err != nil {
		return nil, err
	}
	return work.Payload(bundle, foundation), nil
}

// wanted is what the payload of an add-on is made of, as soon as it may be delivered.
func (a *Agent) wanted(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, *workv1.ManifestWork, error) {
	result, err := a.targets.OfAddOn(addon)
	if err != nil {
		return nil, nil, err
	}
	if result.Target == nil { // an error keeps what is installed
		return nil, nil, fmt.Errorf("nothing new is delivered: %s: %s", result.Reason, result.Message)
	}
	bundle, err := a.bundles.Bundle(ctx, addon)
	if err != nil {
		return nil, nil, err
	}
	foundation, err := a.foundation(addon.Namespace, bundle)
	if err != nil {
		return nil, nil, err
	}
	return bundle, foundation, a.awaitGate(addon)
}

// foundation is that of the bundle, applied.
func (a *Agent) foundation(cluster string, bundle *render.Bundle) (*workv1.ManifestWork, error) {
	name := work.FoundationName(a.component)
	foundation, err := a.works.Foundations.ManifestWorks(cluster).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("waiting for ManifestWork %q, which carries the CRDs, to be created", name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ManifestWork %q: %w", name, err)
	}
	if work.IsProbe(foundation) {
		return nil, fmt.Errorf("nothing is delivered before it is known whether the cluster has %s already", a.component)
	}
	if foundation.Annotations[api.DigestAnnotation] != bundle.FoundationDigest {
		return nil, fmt.Errorf("waiting for ManifestWork %q, which carries the CRDs, to be updated to version %s", name, bundle.Version)
	}
	if applied, why := work.Applied(foundation); !applied {
		return nil, fmt.Errorf("waiting for ManifestWork %q, which carries the CRDs: %s", name, why)
	}
	return foundation, nil
}

// GetAgentAddonOptions implements agent.AgentAddon.
func (a *Agent) GetAgentAddonOptions() agent.AgentAddonOptions {
	return agent.AgentAddonOptions{
		AddonName: a.component.AddOnName(),
		// There is no agent of ours on the cluster, so nothing registers.
		Registration: nil,
		// Package foundation says whether the add-on is Available: the framework would go by the works alone, which are while
		// old pods serve.
		HealthProber:        &agent.HealthProber{Type: agent.HealthProberTypeNone},
		SupportedConfigGVRs: []schema.GroupVersionResource{a.component.Resource(), utils.AddOnDeploymentConfigGVR},
		ManifestConfigs:     a.configs,
		// A cluster that comes back is looked at again.
		AgentDeployTriggerClusterFilter: utils.ClusterAvailableConditionChanged,
	}
}
