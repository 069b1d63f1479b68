// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"

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
	// AddOns caches the ManagedClusterAddOns, with addon-framework's index by configuration.
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
func newHashCollector(component api.Component, name types.NamespacedName) func(map[string]bool, addonv1beta1.ConfigGroupResource, ...*addonv1beta1.ConfigSpecHash) {
	gvr := component.Resource()
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
func (r *References) Of(component api.Component, name types.NamespacedName) (Referred, error) {
	out := Referred{Desired: map[string]bool{}, Named: map[string]bool{}, Good: map[string]bool{}}
	gvr, note := component.Resource(), newHashCollector(component, name)
	addOns, err := r.AddOns.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s", gvr.Group, gvr.Resource, name))
	if err != nil {
		return Referred{}, fmt.Errorf("cannot find the add-ons that %s %q configures: %w", component.Kind(), name, err)
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
