// Copyright Contributors to the Open Cluster Management project

package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/report"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Reconciler serves the resources of one component, one at a time each.
type Reconciler struct {
	Component api.Component
	Finder    *target.Finder
	Bundles   Bundles
	Pauses    addon.Pauses

	Configs     cache.GenericLister
	AddOns      addonlisters.ManagedClusterAddOnLister
	Definitions addonlisters.ClusterManagementAddOnLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	// AddOnsByConfig finds the ManagedClusterAddOns that a resource configures, by addon-framework's index.
	AddOnsByConfig cache.Indexer

	ConfigClient dynamic.Interface
	AddOnClient  addonclient.Interface
	Events       events.EventRecorder
	Clock        clock.PassiveClock

	// Elsewhere tells of a resource that another controller installs and reports on. Nil means of none.
	Elsewhere func(*unstructured.Unstructured) bool

	// conflicts remembers who was told of a conflict with the Knative Operator.
	conflicts told
	// counted is when the status of a fleet configuration was last written.
	counted pacer
}

// Bundles finds what is to be installed.
type Bundles interface {
	addon.Bundles
	// Latest is the bundle of a resource as it is now, on the cluster of an add-on.
	Latest(ctx context.Context, name types.NamespacedName, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error)
	// Version is the version that a resource asks for, whatever cluster it may come to. Its errors say what is wrong.
	Version(ctx context.Context, component api.Component, name types.NamespacedName) (string, error)
}

const (
	// staleRetry is after how long a reconcile that has read an old object is done again, unless an event comes first.
	staleRetry = time.Second
	// handoverRetry is after how long to look again whether an add-on that passes from one owner to the next is there.
	handoverRetry = 2 * time.Second
)

// Reconcile brings one resource one step further and tells in its status how far it is.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(req.NamespacedName)
	if err != nil || s == nil {
		return reconcile.Result{}, err
	}
	result, err := r.reconcile(ctx, s)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil // the cache is behind; no fault
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, s *scope) (reconcile.Result, error) {
	switch {
	case s.deleting() && s.finalized():
		return r.remove(ctx, s)
	case s.deleting():
		return reconcile.Result{}, nil
	case r.left(s):
		return reconcile.Result{}, nil
	case r.Elsewhere != nil && r.Elsewhere(s.config):
		return reconcile.Result{}, nil
	case !s.refers:
		return r.reportFleet(ctx, s)
	}
	if err := r.resolve(s); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.own(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	installation, wait, err := r.observe(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait}, r.reporter().Installation(ctx, s.config, installation)
}

// resolve finds where the reference leads and whose the add-on there is.
func (r *Reconciler) resolve(s *scope) error {
	var err error
	if s.target, err = r.Finder.Resolve(s.config); err != nil {
		return err
	}
	if s.owner, err = r.Finder.Owner(r.Component, s.config, s.addOn); err != nil {
		return fmt.Errorf("cannot tell whose add-on %q on cluster %q is: %w", r.Component, s.ref.Name, err)
	}
	return nil
}

func (r *Reconciler) reporter() *report.Reporter {
	return &report.Reporter{Component: r.Component, Client: r.ConfigClient, Events: r.Events, Clock: r.Clock}
}

func (s *scope) deleting() bool { return s.config.GetDeletionTimestamp() != nil }

func (s *scope) finalized() bool {
	return slices.Contains(s.config.GetFinalizers(), api.InstallFinalizer)
}
