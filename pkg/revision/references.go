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

// References reads which specs OCM refers to.
type References struct {
	// AddOns are the ManagedClusterAddOns, with addon-framework's index by configuration.
	AddOns      cache.Indexer
	Definitions addonlisters.ClusterManagementAddOnLister
}

// Referred are hashes of the specs of one resource.
type Referred struct {
	// Desired are those that clusters are to have, Good those that a cluster completed: its works carried them and were
	// available.
	Desired, Good map[string]bool
}

// Of are the references to the specs of a resource.
func (r *References) Of(component api.Component, name types.NamespacedName) (Referred, error) {
	out := Referred{Desired: map[string]bool{}, Good: map[string]bool{}}
	gvr := component.Resource()
	note := func(into map[string]bool, gr addonv1beta1.ConfigGroupResource, refs ...*addonv1beta1.ConfigSpecHash) {
		for _, ref := range refs {
			if ref != nil && ref.SpecHash != "" && gr.Group == gvr.Group && gr.Resource == gvr.Resource &&
				ref.Namespace == name.Namespace && ref.Name == name.Name {
				into[ref.SpecHash] = true
			}
		}
	}
	addOns, err := r.AddOns.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s", gvr.Group, gvr.Resource, name))
	if err != nil {
		return Referred{}, fmt.Errorf("cannot find the add-ons that %s %q configures: %w", component.Kind(), name, err)
	}
	for _, o := range addOns {
		if addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok {
			for _, ref := range addOn.Status.ConfigReferences {
				note(out.Desired, ref.ConfigGroupResource, ref.DesiredConfig)
				note(out.Good, ref.ConfigGroupResource, ref.LastAppliedConfig)
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
