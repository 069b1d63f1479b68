// Copyright Contributors to the Open Cluster Management project

package target

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta2 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Profiles reads ClusterProfiles. The hub may not have that kind at all: then Get fails with a NoMatch error.
type Profiles interface {
	Get(name types.NamespacedName) (*clusterinventoryv1alpha1.ClusterProfile, error)
}

// Finder finds targets. All methods are safe for concurrent use.
type Finder struct {
	// Configs are the caches of KnativeServings and KnativeEventings, with Indexers.
	Configs  map[api.Component]cache.Indexer
	Profiles Profiles
	Clusters clusterlisters.ManagedClusterLister
	Bindings clusterlistersv1beta2.ManagedClusterSetBindingLister
	Sets     clusterlistersv1beta2.ManagedClusterSetLister
	// Policy lists the namespaces whose ClusterProfiles may be referred to. Direct returns the manager's configuration for
	// Direct delivery; nil means that Direct delivery is off.
	Policy resolve.ReferencePolicy
	// Trust names the namespaces whose resources may adopt and delete.
	Trust  trust.Policy
	Direct func() resolve.DirectDelivery
	// Operator names the Deployment of the Knative Operator on the hub; empty without a Knative Operator. Nil means that
	// none runs.
	Operator func() string
}

// Conflict returns the result of every resource while the Knative Operator on the hub manages the resources.
func (f *Finder) Conflict() (result resolve.Result, conflict bool) {
	if f.Operator == nil || f.Operator() == "" {
		return resolve.Result{}, false
	}
	return resolve.Result{Reason: api.ReasonConflict, Message: fmt.Sprintf(
		"the Knative Operator runs on this hub (%s) and manages all KnativeServings and KnativeEventings, so that this add-on ignores the resources; scale the Knative Operator to zero replicas, or uninstall this add-on from the hub; "+
			"do not uninstall the Knative Operator, because its chart deletes the CustomResourceDefinitions, with them every resource, and with the resources every installation",
		f.Operator())}, true
}

// Resolve determines the target of the resource's spec.clusterProfileRef. An error means that the caches failed, not that
// the reference is wrong.
func (f *Finder) Resolve(config *unstructured.Unstructured) (resolve.Result, error) {
	if result, conflict := f.Conflict(); conflict {
		return result, nil
	}
	ref, _ := ReferenceOf(config)
	in := resolve.Input{Reference: ref, Namespace: config.GetNamespace(), Policy: f.Policy, Direct: f.directDelivery()}
	in.Profile, in.ProfileError = f.Profiles.Get(ref)
	if in.ProfileError != nil || in.Profile == nil {
		return resolve.Resolve(in), nil //nolint:nilerr // resolve.Resolve explains the error
	}
	name := resolve.ClaimedCluster(in.Profile)
	if name == "" {
		return resolve.Resolve(in), nil
	}
	var err error
	if in.Cluster, err = f.getCluster(name); err != nil {
		return resolve.Result{}, err
	}
	if in.Bindings, err = f.Bindings.ManagedClusterSetBindings(ref.Namespace).List(labels.Everything()); err != nil {
		return resolve.Result{}, fmt.Errorf("cannot list ManagedClusterSetBindings of namespace %q: %w", ref.Namespace, err)
	}
	for _, b := range in.Bindings {
		set, err := f.Sets.Get(b.Spec.ClusterSet)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return resolve.Result{}, fmt.Errorf("cannot get ManagedClusterSet %q: %w", b.Spec.ClusterSet, err)
		}
		in.Sets = append(in.Sets, set)
	}
	return resolve.Resolve(in), nil
}

func (f *Finder) directDelivery() resolve.DirectDelivery {
	if f.Direct == nil {
		return resolve.DirectDelivery{}
	}
	return f.Direct()
}

// getCluster returns the ManagedCluster; nil when none exists.
func (f *Finder) getCluster(name string) (*clusterv1.ManagedCluster, error) {
	cluster, err := f.Clusters.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ManagedCluster %q: %w", name, err)
	}
	return cluster, nil
}

// OfAddOn resolves the cluster of an add-on with the add-on's configuration. Without a Target nothing new may be written,
// and the cluster keeps the installation. An add-on that was created for a resource with a reference accepts no
// configuration from another resource of the same name without a reference: the add-on rests on the consent to the
// reference.
func (f *Finder) OfAddOn(addOn *addonv1beta1.ManagedClusterAddOn) (resolve.Result, error) {
	config, err := f.getConfig(addOn)
	if err != nil {
		return resolve.Result{}, err
	}
	if config != nil {
		if ref, ok := ReferenceOf(config); ok {
			return f.resolveReference(addOn, config, ref)
		}
		if name := client.ObjectKeyFromObject(config).String(); addOn.Annotations[api.InstalledForAnnotation] == name {
			return resolve.Result{Reason: api.ReasonReferenceNotPermitted, Message: fmt.Sprintf(
				"the add-on was made for %s %q with a reference to cluster %q, and the resource of that name refers to no cluster now; give the resource its spec.clusterProfileRef again, or take annotation %s from the ManagedClusterAddOn to let the resource configure the cluster without one",
				config.GetKind(), name, addOn.Namespace, api.InstalledForAnnotation)}, nil
		}
	}
	cluster, err := f.getCluster(addOn.Namespace)
	if err != nil {
		return resolve.Result{}, err
	}
	return resolve.ManagedCluster(addOn.Namespace, cluster), nil
}

func (f *Finder) resolveReference(
	addOn *addonv1beta1.ManagedClusterAddOn, config *unstructured.Unstructured, ref types.NamespacedName,
) (resolve.Result, error) {
	if ref.Name != addOn.Namespace {
		return resolve.Result{Reason: api.ReasonReferenceNotPermitted, Message: fmt.Sprintf(
			"%s \"%s/%s\" refers to ClusterProfile %q and may configure no other cluster; name a resource without spec.clusterProfileRef in the configs of the ManagedClusterAddOn",
			config.GetKind(), config.GetNamespace(), config.GetName(), ref)}, nil
	}
	result, err := f.Resolve(config)
	if err != nil || result.Target == nil || result.Target.Mode == api.ModeManifestWork {
		return result, err
	}
	if result.Resolved() {
		result.Reason = api.ReasonTargetConflict
		result.Message = fmt.Sprintf("ClusterProfile %q asks for Direct delivery, and the work agent has an installation on the cluster", ref)
	}
	result.Target = nil // two modes for one cluster would be two writers
	return result, nil
}

// getConfig returns the resource that configures the add-on; nil when the resource is unknown or does not exist.
func (f *Finder) getConfig(addOn *addonv1beta1.ManagedClusterAddOn) (*unstructured.Unstructured, error) {
	component := api.Component(addOn.Name)
	name, ok := revision.ConfigOf(addOn)
	if !ok {
		return nil, nil
	}
	return f.get(component, name)
}

// get returns the resource of the name; nil when none exists.
func (f *Finder) get(component api.Component, name types.NamespacedName) (*unstructured.Unstructured, error) {
	o, exists, err := f.Configs[component].GetByKey(name.String())
	if err != nil || !exists {
		return nil, err
	}
	config, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cannot read %s %q: it is a %T", component.Kind(), name, o)
	}
	return config, nil
}
