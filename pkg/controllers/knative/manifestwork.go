// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// ManifestWork installs a resource through the work agent of OCM: the delivery enables the add-on on the managed cluster, with
// the resource as the configuration of the add-on. Other controllers write the works of an add-on.
type ManifestWork struct {
	Component api.Component
	Finder    *target.Finder
	Bundles   AddOnBundles
	Pauses    addon.Pauses

	AddOns      addonlisters.ManagedClusterAddOnLister
	Definitions addonlisters.ClusterManagementAddOnLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	// Revisions is the cache of ControllerRevisions with api.RevisionLabel, including the hand-overs.
	Revisions cache.Store

	ConfigClient dynamic.Interface
	AddOnClient  addonclient.Interface
	Events       events.EventRecorder
	Clock        clock.PassiveClock
}

// AddOnBundles renders the bundles of add-ons.
type AddOnBundles interface {
	addon.Bundles
	// Latest returns the bundle of the current spec of a resource, on the cluster of an add-on.
	Latest(ctx context.Context, name types.NamespacedName, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error)
}

var _ Delivery = (*ManifestWork)(nil)

// Delivers implements Delivery.
func (m *ManifestWork) Delivers(config *unstructured.Unstructured) bool {
	_, refers := target.ReferenceOf(config)
	return refers
}

// Finalizer implements Delivery.
func (m *ManifestWork) Finalizer() string { return api.InstallFinalizer }

// Ensure implements Delivery.
func (m *ManifestWork) Ensure(ctx context.Context, resource *Resource) (Outcome, error) {
	s, err := m.gatherScope(resource)
	if err != nil {
		return Outcome{}, err
	}
	if err := m.resolveReference(s); err != nil {
		return Outcome{}, err
	}
	if err := m.ensureOwnership(ctx, s); err != nil {
		return Outcome{}, err
	}
	out, err := m.observeWorks(ctx, s)
	if err == nil && s.awaitsHandover() {
		out.RequeueAfter = reconciler.Soonest(out.RequeueAfter, handoverRetry)
	}
	return out, err
}

// Forget implements Delivery. The state of an installation is in the API.
func (m *ManifestWork) Forget(types.NamespacedName) {}

// resolveReference finds the cluster that the resource refers to and the owner of the add-on there.
func (m *ManifestWork) resolveReference(s *scope) error {
	var err error
	if s.resolution, err = m.Finder.Resolve(s.Config); err != nil {
		return err
	}
	if s.owner, err = m.Finder.Owner(m.Component, s.Config, s.addOn); err != nil {
		return fmt.Errorf("cannot find the owner of add-on %q on cluster %q: %w", m.Component, s.ref.Name, err)
	}
	return nil
}
