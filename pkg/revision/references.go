// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// References finds the specs to which OCM refers.
type References struct {
	// AddOns caches the ManagedClusterAddOns, with addon-framework's index by configuration. ConfiguresAddOn needs AddOnIndexers, too.
	AddOns      cache.Indexer
	Definitions addonlisters.ClusterManagementAddOnLister
}

// Referred holds the hashes of the specs of one resource to which OCM refers.
type Referred struct {
	// Desired has the hashes that clusters should have. Named has also every other hash in the status of an add-on, which the agent
	// of a cluster may write: Named is a reason to keep a revision, and for nothing else. Good has the hashes that, by OCM's add-on
	// manager, all clusters of a Placement completed.
	Desired, Named, Good map[string]bool
}

// newHashCollector returns a function that adds the hashes of references to the resource to a set.
func newHashCollector(kind Kind, name types.NamespacedName) func(map[string]bool, addonv1beta1.ConfigGroupResource, ...*addonv1beta1.ConfigSpecHash) {
	gvr := kind.Resource()
	return func(into map[string]bool, gr addonv1beta1.ConfigGroupResource, refs ...*addonv1beta1.ConfigSpecHash) {
		for _, ref := range refs {
			if ref != nil && ref.SpecHash != "" && gr.Group == gvr.Group && gr.Resource == gvr.Resource &&
				ref.Namespace == name.Namespace && ref.Name == name.Name {
				into[ref.SpecHash] = true
			}
		}
	}
}

// Of returns the references to the specs of a resource.
func (r *References) Of(kind Kind, name types.NamespacedName) (Referred, error) {
	out := Referred{Desired: map[string]bool{}, Named: map[string]bool{}, Good: map[string]bool{}}
	gvr, note := kind.Resource(), newHashCollector(kind, name)
	addOns, err := r.AddOns.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s", gvr.Group, gvr.Resource, name))
	if err != nil {
		return Referred{}, fmt.Errorf("cannot find the add-ons that %s %q configures: %w", kind.Kind(), name, err)
	}
	for _, o := range addOns {
		addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn)
		if !ok {
			continue
		}
		for _, ref := range addOn.Status.ConfigReferences {
			note(out.Named, ref.ConfigGroupResource, ref.DesiredConfig, ref.LastAppliedConfig)
			if ref.DesiredConfig != nil && Granted(addOn, ref.ConfigGroupResource, ref.DesiredConfig.ConfigReferent) {
				note(out.Desired, ref.ConfigGroupResource, ref.DesiredConfig)
			}
		}
	}
	definitions, err := r.Definitions.List(labels.Everything())
	if err != nil {
		return Referred{}, fmt.Errorf("cannot list ClusterManagementAddOns: %w", err)
	}
	for _, d := range definitions {
		for _, p := range d.Status.InstallProgressions {
			for _, ref := range p.ConfigReferences {
				note(out.Desired, ref.ConfigGroupResource, ref.DesiredConfig)
				note(out.Good, ref.ConfigGroupResource, ref.LastAppliedConfig, ref.LastKnownGoodConfig)
			}
		}
	}
	return out, nil
}

// deploymentIndex indexes ManagedClusterAddOns by the AddOnDeploymentConfigs that configure the add-ons.
const deploymentIndex = "deploymentConfig"

// AddOnIndexers returns the index of ManagedClusterAddOns by AddOnDeploymentConfig.
func AddOnIndexers() cache.Indexers {
	return cache.Indexers{deploymentIndex: func(o any) ([]string, error) {
		var out []string
		for _, name := range DeploymentsOf(o) {
			out = append(out, name.String())
		}
		return out, nil
	}}
}

// DeploymentsOf returns the sorted names of the AddOnDeploymentConfigs that a ManagedClusterAddOn or a ClusterManagementAddOn of this
// manager gives to clusters.
func DeploymentsOf(o any) []types.NamespacedName {
	var configs []addonv1beta1.AddOnConfig
	switch o := o.(type) {
	case *addonv1beta1.ManagedClusterAddOn:
		if _, ours := api.ComponentOfAddOn(o.Name); ours {
			configs = configsOfAddOn(o)
		}
	case *addonv1beta1.ClusterManagementAddOn:
		if _, ours := api.ComponentOfAddOn(o.Name); ours {
			configs = configsOfDefinition(o)
		}
	}
	var out []types.NamespacedName
	for _, c := range configs {
		if c.ConfigGroupResource == GroupResource(DeploymentConfig{}) {
			out = append(out, types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// configsOfAddOn returns the configurations that the hub gave to an add-on. A name that only the status has does not count: the agent of
// a cluster may write that status.
func configsOfAddOn(o *addonv1beta1.ManagedClusterAddOn) []addonv1beta1.AddOnConfig {
	configs := slices.Clone(o.Spec.Configs)
	for _, ref := range o.Status.ConfigReferences {
		if ref.DesiredConfig != nil && Granted(o, ref.ConfigGroupResource, ref.DesiredConfig.ConfigReferent) {
			configs = append(configs, addonv1beta1.AddOnConfig{ConfigGroupResource: ref.ConfigGroupResource, ConfigReferent: ref.DesiredConfig.ConfigReferent})
		}
	}
	return configs
}

// configsOfDefinition returns the configurations that a ClusterManagementAddOn gives to its add-ons.
func configsOfDefinition(o *addonv1beta1.ClusterManagementAddOn) []addonv1beta1.AddOnConfig {
	configs := slices.Clone(o.Spec.DefaultConfigs)
	for _, p := range o.Spec.InstallStrategy.Placements {
		configs = append(configs, p.Configs...)
	}
	return configs
}

// ConfiguresAddOn reports whether the AddOnDeploymentConfig configures an add-on of this manager.
func (r *References) ConfiguresAddOn(deployment types.NamespacedName) (bool, error) {
	addOns, err := r.AddOns.ByIndex(deploymentIndex, deployment.String())
	if err != nil {
		return false, fmt.Errorf("cannot find the add-ons that AddOnDeploymentConfig %q configures: %w", deployment, err)
	}
	if len(addOns) > 0 {
		return true, nil
	}
	for _, c := range api.Components() {
		definition, err := r.Definitions.Get(c.AddOnName())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("cannot get ClusterManagementAddOn %q: %w", c.AddOnName(), err)
		}
		if slices.Contains(DeploymentsOf(definition), deployment) {
			return true, nil
		}
	}
	return false, nil
}
