// Copyright Contributors to the Open Cluster Management project

package install

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// scope is what one reconcile knows. Its objects come from caches and must not be changed.
type scope struct {
	// config is the resource, as it was last read or written.
	config *unstructured.Unstructured
	// ref is its spec.clusterProfileRef, if it refers to one; ref.Name is the name of the managed cluster.
	ref    types.NamespacedName
	refers bool

	// definition is the ClusterManagementAddOn, nil when there is none.
	definition *addonv1beta1.ClusterManagementAddOn
	// addOn is the component's add-on on the cluster, nil when there is none. Foundation and payloads are its works, the
	// latter by name.
	addOn      *addonv1beta1.ManagedClusterAddOn
	foundation *workv1.ManifestWork
	payloads   []*workv1.ManifestWork

	// target and owner are set by resolve.
	target resolve.Result
	owner  target.Owner
}

// gather reads what a reconcile needs. It returns nil when the resource is gone.
func (r *Reconciler) gather(name types.NamespacedName) (*scope, error) {
	config, err := revision.Live(r.Configs, r.Component, name)
	if err != nil || config == nil {
		return nil, err
	}
	s := &scope{config: config}
	if s.definition, err = optional(r.Definitions.Get(r.Component.AddOnName())); err != nil {
		return nil, fmt.Errorf("cannot get ClusterManagementAddOn %q: %w", r.Component, err)
	}
	if s.ref, s.refers = target.ReferenceOf(s.config); !s.refers {
		return s, nil
	}
	return s, r.gatherCluster(s)
}

// gatherCluster reads what there is on and of the cluster that the resource refers to.
func (r *Reconciler) gatherCluster(s *scope) error {
	var err error
	if s.addOn, err = optional(r.AddOns.ManagedClusterAddOns(s.ref.Name).Get(r.Component.AddOnName())); err != nil {
		return fmt.Errorf("cannot get ManagedClusterAddOn \"%s/%s\": %w", s.ref.Name, r.Component, err)
	}
	if s.foundation, err = optional(r.Foundations.ManifestWorks(s.ref.Name).Get(work.FoundationName(r.Component))); err != nil {
		return fmt.Errorf("cannot get the foundation of cluster %q: %w", s.ref.Name, err)
	}
	s.payloads, err = r.Payloads.ManifestWorks(s.ref.Name).List(
		labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: r.Component.AddOnName()}))
	if err != nil {
		return fmt.Errorf("cannot list the works of cluster %q: %w", s.ref.Name, err)
	}
	slices.SortFunc(s.payloads, func(a, b *workv1.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// optional makes nil of what is not found.
func optional[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// held tells that the add-on on the cluster is the resource's.
func (s *scope) held() bool { return s.addOn != nil && s.has(s.addOn) }

// has tells that an add-on is configured by the resource.
func (s *scope) has(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	configured, ok := target.ConfiguredBy(addOn)
	return ok && configured == nameOf(s)
}

// admissible tells that the target is a cluster that works may be made for, now or for when it is back in sight. One that
// is being detached waits until its add-ons are gone.
func (s *scope) admissible() bool {
	return s.target.Target != nil && s.target.Target.Mode == resolve.ManifestWork && !s.target.Target.Closed
}

func nameOf(s *scope) types.NamespacedName {
	return types.NamespacedName{Namespace: s.config.GetNamespace(), Name: s.config.GetName()}
}

// placed tells that Placements decide which clusters have the add-on.
func (s *scope) placed() bool {
	return s.definition != nil && s.definition.Spec.InstallStrategy.Type == addonv1beta1.AddonInstallStrategyPlacements
}
