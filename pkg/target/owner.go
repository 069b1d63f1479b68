// Copyright Contributors to the Open Cluster Management project

package target

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Ownership relates the add-on of a cluster to one resource that refers to the cluster.
type Ownership string

const (
	// Free means that the cluster has no add-on, and that the resource may create the add-on.
	Free Ownership = "Free"
	// Ours means that the add-on is configured by the resource and stays so.
	Ours Ownership = "Ours"
	// Inherited means that the add-on was created for another resource, and that this resource may take over the add-on.
	Inherited Ownership = "Inherited"
	// OfOtherResource means that another resource owns the add-on, or is older.
	OfOtherResource Ownership = "OfOtherResource"
	// OfUser means that a user enabled the add-on.
	OfUser Ownership = "OfUser"
	// Leaving means that the add-on is being deleted, and that the resource may create the next add-on.
	Leaving Ownership = "Leaving"
)

// Owner is the Ownership with the name of the other resource.
type Owner struct {
	Ownership
	// Resource is the other resource of OfOtherResource and Inherited.
	Resource types.NamespacedName
}

// Owner determines the ownership of the add-on on the cluster, for a resource whose reference leads to the cluster. addOn
// is nil when the cluster has no add-on.
func (f *Finder) Owner(
	component api.Component, config *unstructured.Unstructured, addOn *addonv1beta1.ManagedClusterAddOn,
) (Owner, error) {
	ref, _ := ReferenceOf(config)
	in := ownerInput{self: config, addOn: addOn}
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
		if result.Target != nil && result.Target.Mode == api.ModeManifestWork {
			in.rivals = append(in.rivals, other)
		}
	}
	return determineOwner(&in), nil
}

// ConfiguredBy returns the KnativeServing or KnativeEventing in spec.configs of the add-on.
func ConfiguredBy(addOn *addonv1beta1.ManagedClusterAddOn) (name types.NamespacedName, ok bool) {
	for _, c := range addOn.Spec.Configs {
		if c.ConfigGroupResource == revision.GroupResource(api.Component(addOn.Name)) {
			return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, true
		}
	}
	return types.NamespacedName{}, false
}

// ownerInput holds the facts for determineOwner.
type ownerInput struct {
	self  *unstructured.Unstructured
	addOn *addonv1beta1.ManagedClusterAddOn
	// configured is the resource in spec.configs of the add-on, if configures; incumbent is that resource, and nil when the
	// resource does not exist.
	configured types.NamespacedName
	configures bool
	incumbent  *unstructured.Unstructured
	// rivals are the other resources whose references lead to the cluster.
	rivals []*unstructured.Unstructured
}

// determineOwner gives the cluster to the oldest resource. The current owner keeps the cluster against younger resources as
// long as the owner exists, even with a reference that no longer resolves: an unavailable object must not move an
// installation.
func determineOwner(in *ownerInput) Owner {
	rivals := slices.Clone(in.rivals)
	if in.incumbent != nil && in.incumbent.GetUID() != in.self.GetUID() {
		if ref, ok := ReferenceOf(in.incumbent); !ok || ref.Name != in.addOn.Namespace {
			return Owner{Ownership: OfUser}
		}
		if in.incumbent.GetDeletionTimestamp() != nil {
			return Owner{OfOtherResource, client.ObjectKeyFromObject(in.incumbent)} // the removal of the incumbent comes first
		}
		rivals = append(rivals, in.incumbent)
	}
	if in.addOn != nil && in.incumbent == nil && in.addOn.Annotations[api.InstalledForAnnotation] != in.configured.String() {
		return Owner{Ownership: OfUser}
	}
	if len(rivals) > 0 {
		if oldest := slices.MinFunc(rivals, byAge); byAge(oldest, in.self) < 0 {
			return Owner{OfOtherResource, client.ObjectKeyFromObject(oldest)}
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

// byAge orders the oldest first; resources of the same second by name.
func byAge(a, b *unstructured.Unstructured) int {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(x.Compare(y.Time), cmp.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String()))
}

// RemoveOne ends the message about two installations of a component on one cluster.
const RemoveOne = "remove one of the two, and the remaining one continues automatically"

// maxNamed is the number of objects that a refusal names.
const maxNamed = 5

// RefuseUnmanaged refuses a cluster that has the component by another installer. The cluster is the text for a message, such as
// `cluster "c1"`; adopt ends the message with the way to adopt the installation.
func RefuseUnmanaged(cluster string, c api.Component, objects []string, adopt string) *resolve.Result {
	return &resolve.Result{Reason: api.ReasonExistingInstallation, Message: fmt.Sprintf(
		"%s already has %s of another installer, and the installation stays unchanged: %s; remove the installation, or %s",
		cluster, c, message.List(objects, maxNamed), adopt)}
}

// RefuseNamespace refuses the install namespace that an annotation names. The problem is what the cluster has in the way.
func RefuseNamespace(problem string, c api.Component) *resolve.Result {
	return &resolve.Result{Reason: api.ReasonEscalationNotPermitted, Message: fmt.Sprintf(
		"%s, and annotation %s may name such a namespace only in a trusted namespace of the hub; name a namespace that the cluster does not have, remove the annotation, or let the hub's administrator add the namespace of the %s to rendering.trustedNamespaces of the chart",
		problem, api.InstallNamespaceAnnotation, c.Kind())}
}
