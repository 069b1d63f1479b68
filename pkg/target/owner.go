// Copyright Contributors to the Open Cluster Management project

package target

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// Ownership is whose the add-on of a cluster is, seen from one resource that refers to the cluster.
type Ownership string

const (
	// Free means that there is no add-on, and that the resource may make it.
	Free Ownership = "Free"
	// Ours means that the add-on is configured by the resource and stays so.
	Ours Ownership = "Ours"
	// Inherited means that the add-on was made for another resource, and that this one may take it over.
	Inherited Ownership = "Inherited"
	// OfRival means that another resource has the cluster, or comes first.
	OfRival Ownership = "OfRival"
	// OfUser means that a user enabled the add-on.
	OfUser Ownership = "OfUser"
	// Leaving means that an add-on is being removed and another one may be made after it.
	Leaving Ownership = "Leaving"
)

// Owner is whose the add-on of a cluster is.
type Owner struct {
	Ownership
	// Rival is the other resource when there is one.
	Rival types.NamespacedName
}

// Owner tells whose the add-on on the cluster is, seen from a resource whose reference leads there. addOn is nil when there is none.
func (f *Finder) Owner(
	component api.Component, config *unstructured.Unstructured, addOn *addonv1beta1.ManagedClusterAddOn,
) (Owner, error) {
	ref, _ := ReferenceOf(config)
	in := ownership{self: config, addOn: addOn}
	var err error
	if addOn != nil {
		if in.configured, in.configures = ConfiguredBy(addOn); in.configures {
			if in.incumbent, err = f.get(component, in.configured); err != nil {
				return Owner{}, err
			}
		}
	}
	referring, err := ReferringToName(f.Configs[component], ref.Name)
	if err != nil {
		return Owner{}, err
	}
	for _, other := range referring {
		if other.GetUID() == config.GetUID() || other.GetDeletionTimestamp() != nil {
			continue
		}
		result, err := f.Resolve(other)
		if err != nil {
			return Owner{}, err
		}
		if result.Target != nil && result.Target.Mode == resolve.ManifestWork {
			in.rivals = append(in.rivals, other)
		}
	}
	return determineOwner(&in), nil
}

// ConfiguredBy is the KnativeServing or KnativeEventing that the add-on names itself in spec.configs.
func ConfiguredBy(addOn *addonv1beta1.ManagedClusterAddOn) (name types.NamespacedName, ok bool) {
	gvr := api.Component(addOn.Name).Resource()
	for _, c := range addOn.Spec.Configs {
		if c.Group == gvr.Group && c.Resource == gvr.Resource {
			return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, true
		}
	}
	return types.NamespacedName{}, false
}

// ownership is what determineOwner decides on.
type ownership struct {
	self  *unstructured.Unstructured
	addOn *addonv1beta1.ManagedClusterAddOn
	// configured is what the add-on names as its configuration, if configures; incumbent is that resource, nil when it
	// does not exist.
	configured types.NamespacedName
	configures bool
	incumbent  *unstructured.Unstructured
	// rivals are the other resources whose references lead to the cluster.
	rivals []*unstructured.Unstructured
}

// determineOwner lets the oldest resource have the cluster. One that has it already keeps it against younger ones as long
// as it exists, whatever its reference has come to: nothing moves because something is not to be seen for a while.
func determineOwner(in *ownership) Owner {
	rivals := slices.Clone(in.rivals)
	if in.incumbent != nil && in.incumbent.GetUID() != in.self.GetUID() {
		if ref, ok := ReferenceOf(in.incumbent); !ok || ref.Name != in.addOn.Namespace {
			return Owner{Ownership: OfUser}
		}
		if in.incumbent.GetDeletionTimestamp() != nil {
			return Owner{OfRival, nameOf(in.incumbent)} // its removal comes first
		}
		rivals = append(rivals, in.incumbent)
	}
	if in.addOn != nil && in.incumbent == nil && in.addOn.Annotations[api.InstalledForAnnotation] != in.configured.String() {
		return Owner{Ownership: OfUser}
	}
	if len(rivals) > 0 {
		if oldest := slices.MinFunc(rivals, byAge); byAge(oldest, in.self) < 0 {
			return Owner{OfRival, nameOf(oldest)}
		}
	}
	switch {
	case in.addOn == nil:
		return Owner{Ownership: Free}
	case in.addOn.DeletionTimestamp != nil:
		return Owner{Ownership: Leaving}
	case in.incumbent != nil && in.incumbent.GetUID() == in.self.GetUID():
		return Owner{Ownership: Ours}
	}
	return Owner{Inherited, in.configured}
}

func nameOf(config *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
}

// byAge orders the oldest first; resources of the same second by name.
func byAge(a, b *unstructured.Unstructured) int {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(x.Compare(y.Time), cmp.Compare(nameOf(a).String(), nameOf(b).String()))
}
