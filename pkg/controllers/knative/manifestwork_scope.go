// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// scope is the input of one pass of ManifestWork. The objects belong to caches and must not be changed.
type scope struct {
	*Resource
	// ref is spec.clusterProfileRef of the resource, and refers reports whether the resource has one. ref.Name is the name of
	// the managed cluster.
	ref    types.NamespacedName
	refers bool

	// definition is the ClusterManagementAddOn; nil when the hub has none.
	definition *addonv1beta1.ClusterManagementAddOn
	// addOn is the component's add-on on the cluster; nil when the cluster has none. foundation and payloads are the works of
	// the add-on, the payloads sorted by name.
	addOn      *addonv1beta1.ManagedClusterAddOn
	foundation *workv1.ManifestWork
	payloads   []*workv1.ManifestWork
	// crds is the work that deletes the CRDs in a removal with the resources of users; nil when the work does not exist.
	crds *workv1.ManifestWork
	// gate and verification are the works of the rollout; nil when a work does not exist.
	gate, verification *workv1.ManifestWork
	// handedOver reports whether the works wait for a new add-on.
	handedOver bool

	// resolution and owner are set by resolveReference.
	resolution resolve.Result
	owner      target.Owner
}

// gatherScope reads the input of a pass.
func (m *ManifestWork) gatherScope(resource *Resource) (*scope, error) {
	s := &scope{Resource: resource}
	var err error
	if s.definition, err = hub.IgnoreNotFound(m.Definitions.Get(m.Component.AddOnName())); err != nil {
		return nil, fmt.Errorf("cannot get ClusterManagementAddOn %q: %w", m.Component, err)
	}
	if s.ref, s.refers = target.ReferenceOf(s.Config); !s.refers {
		return s, nil
	}
	return s, m.gatherCluster(s)
}

// gatherCluster reads the add-on and the works of the cluster that the resource refers to.
func (m *ManifestWork) gatherCluster(s *scope) error {
	var err error
	if s.addOn, err = hub.IgnoreNotFound(m.AddOns.ManagedClusterAddOns(s.ref.Name).Get(m.Component.AddOnName())); err != nil {
		return fmt.Errorf("cannot get ManagedClusterAddOn \"%s/%s\": %w", s.ref.Name, m.Component, err)
	}
	get := func(name string) (*workv1.ManifestWork, error) {
		return hub.IgnoreNotFound(m.Foundations.ManifestWorks(s.ref.Name).Get(name))
	}
	if s.foundation, _, err = manifestwork.FindFoundation(m.Component, get); err != nil {
		return fmt.Errorf("cannot get the foundation of cluster %q: %w", s.ref.Name, err)
	}
	if s.crds, err = hub.IgnoreNotFound(m.Foundations.ManifestWorks(s.ref.Name).Get(manifestwork.CRDsName(m.Component))); err != nil {
		return fmt.Errorf("cannot get the CRDs of cluster %q: %w", s.ref.Name, err)
	}
	if s.gate, err = hub.IgnoreNotFound(m.Foundations.ManifestWorks(s.ref.Name).Get(manifestwork.GateName(m.Component))); err != nil {
		return fmt.Errorf("cannot get the gate of cluster %q: %w", s.ref.Name, err)
	}
	if s.verification, err = hub.IgnoreNotFound(m.Foundations.ManifestWorks(s.ref.Name).Get(manifestwork.VerificationName(m.Component))); err != nil {
		return fmt.Errorf("cannot get the verification of cluster %q: %w", s.ref.Name, err)
	}
	s.payloads, err = m.Payloads.ManifestWorks(s.ref.Name).List(
		labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: m.Component.AddOnName()}))
	if err != nil {
		return fmt.Errorf("cannot list the works of cluster %q: %w", s.ref.Name, err)
	}
	_, s.handedOver, err = m.Revisions.GetByKey(s.ref.Name + "/" + revision.HandoverName(m.Component))
	if err != nil {
		return fmt.Errorf("cannot get the hand-over of cluster %q: %w", s.ref.Name, err)
	}
	slices.SortFunc(s.payloads, func(a, b *workv1.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// awaitsHandover reports whether an installation waits for the add-on that the removal guard creates again with the recorded configurations. An
// add-on of another resource would take the installation over.
func (s *scope) awaitsHandover() bool { return s.addOn == nil && s.foundation != nil && s.handedOver }

// ownsAddOn reports whether the add-on on the cluster belongs to the resource.
func (s *scope) ownsAddOn() bool { return s.addOn != nil && s.isConfigOf(s.addOn) }

// isConfigOf reports whether the resource configures the add-on.
func (s *scope) isConfigOf(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	configured, ok := target.ConfiguredBy(addOn)
	return ok && configured == client.ObjectKeyFromObject(s.Config)
}

// isDeliverable reports whether works may be created for the target, now or for the time when the cluster is available again. A
// cluster that is being detached waits until its add-ons are gone.
func (s *scope) isDeliverable() bool {
	return s.resolution.Target != nil && s.resolution.Target.Mode == api.ModeManifestWork && !s.resolution.Target.Closed
}

// isPlacementManaged reports whether Placements decide which clusters have the add-on.
func (s *scope) isPlacementManaged() bool {
	return s.definition != nil && s.definition.Spec.InstallStrategy.Type == addonv1beta1.AddonInstallStrategyPlacements
}

// isRecorded reports whether the add-on names the resource as its creator and the finalizer keeps the resource until the add-on
// is gone.
func (s *scope) isRecorded() bool {
	return slices.Contains(s.Config.GetFinalizers(), api.InstallFinalizer) && s.addOn.Annotations[api.InstalledForAnnotation] == s.configKey()
}

// configKey returns namespace/name of the resource.
func (s *scope) configKey() string { return client.ObjectKeyFromObject(s.Config).String() }
