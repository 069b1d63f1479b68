// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// index finds the objects of a hub by name. A search in a list for each installation would take quadratic time.
type index struct {
	resources map[resourceKey]*unstructured.Unstructured
	addOns    map[types.NamespacedName]*addonv1beta1.ManagedClusterAddOn
	// foundations are the metadata of the ManifestWorks with api.FoundationLabel.
	foundations map[types.NamespacedName]*metav1.PartialObjectMetadata
}

func newIndex(objects installations.Objects) *index {
	out := &index{
		resources: map[resourceKey]*unstructured.Unstructured{}, addOns: map[types.NamespacedName]*addonv1beta1.ManagedClusterAddOn{},
		foundations: map[types.NamespacedName]*metav1.PartialObjectMetadata{},
	}
	for component, list := range objects.Resources {
		for _, u := range list {
			out.resources[resourceKey{component, client.ObjectKeyFromObject(u)}] = u
		}
	}
	for _, a := range objects.AddOns {
		out.addOns[client.ObjectKeyFromObject(a)] = a
	}
	for _, work := range objects.Works {
		if work.Labels[api.FoundationLabel] != "" {
			out.foundations[client.ObjectKeyFromObject(work)] = work
		}
	}
	return out
}

// findAddOn returns the ManagedClusterAddOn of an installation; nil without a work agent.
func (x *index) findAddOn(i *installations.Installation) *addonv1beta1.ManagedClusterAddOn {
	if i.Mode != api.ModeManifestWork {
		return nil
	}
	return x.addOns[types.NamespacedName{Namespace: i.Cluster, Name: i.Component.AddOnName()}]
}
