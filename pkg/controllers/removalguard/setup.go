// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// SetupWithManager adds addOnIndexers to the cache of ManagedClusterAddOns and makes the manager run the controller. A request names a
// component, and a pass without pending removals costs two look-ups, so that every event may enqueue a request.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	if err := h.ManagedClusterAddOns().Informer().AddIndexers(addOnIndexers()); err != nil {
		return fmt.Errorf("cannot index ManagedClusterAddOns: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("guard").
		WithOptions(reconciler.Options(1)).
		WatchesRawSource(newSource(h.ManagedClusterAddOns().Informer(), client.Object.GetName)).
		WatchesRawSource(newSource(h.ClusterManagementAddOns().Informer(), client.Object.GetName)).
		WatchesRawSource(newSource(h.Foundations().Informer(), func(o client.Object) string { return o.GetLabels()[api.FoundationLabel] })).
		WatchesRawSource(newSource(h.ControllerRevisions().Informer(), addOnOfHandover)).
		WatchesRawSource(newSource(h.Payloads().Informer(), func(o client.Object) string { return o.GetLabels()[addonv1beta1.AddonLabelKey] }))
	for _, c := range api.Components() {
		for _, informer := range []cache.SharedIndexInformer{
			h.ManagedClusters().Informer(), h.Placements().Informer(), h.PlacementDecisions().Informer(), h.Configs(c).Informer(),
		} {
			b = b.WatchesRawSource(newSource(informer, func(client.Object) string { return c.AddOnName() }))
		}
	}
	if err := b.Complete(reconciler.Wrap(r, reconciler.OfDefinition)); err != nil {
		return fmt.Errorf("cannot set up the guard: %w", err)
	}
	return nil
}

// addOnOfHandover returns the component of a hand-over's record, and "" for every other ControllerRevision.
func addOnOfHandover(o client.Object) string {
	if component := o.GetLabels()[api.RevisionLabel]; o.GetName() == revision.HandoverName(api.Component(component)) {
		return component
	}
	return ""
}

func newSource(informer cache.SharedIndexInformer, addOn func(client.Object) string) source.Source {
	return &source.Informer{Informer: informer, Handler: handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, o client.Object) []reconcile.Request {
			c, ok := api.ComponentOfAddOn(addOn(o))
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: c.AddOnName()}}}
		})}
}

// Names of the indexes that a Reconciler uses.
const (
	// nameIndex indexes our ManagedClusterAddOns by name.
	nameIndex = "guardName"
	// deletingIndex indexes, by name, our ManagedClusterAddOns that are being deleted and have an installation.
	deletingIndex = "guardDeleting"
)

// addOnIndexers returns the indexes of ManagedClusterAddOns.
func addOnIndexers() cache.Indexers {
	indexed := func(o any, matches func(*addonv1beta1.ManagedClusterAddOn) bool) ([]string, error) {
		a, err := asAddOn(o)
		if err != nil {
			return nil, err
		}
		if _, ours := api.ComponentOfAddOn(a.Name); !ours || !matches(a) {
			return nil, nil
		}
		return []string{a.Name}, nil
	}
	return cache.Indexers{
		nameIndex: func(o any) ([]string, error) {
			return indexed(o, func(*addonv1beta1.ManagedClusterAddOn) bool { return true })
		},
		deletingIndex: func(o any) ([]string, error) {
			return indexed(o, func(a *addonv1beta1.ManagedClusterAddOn) bool {
				return a.DeletionTimestamp != nil && slices.Contains(a.Finalizers, api.FoundationFinalizer)
			})
		},
	}
}

func asAddOn(o any) (*addonv1beta1.ManagedClusterAddOn, error) {
	a, ok := o.(*addonv1beta1.ManagedClusterAddOn)
	if !ok {
		return nil, fmt.Errorf("cannot read a ManagedClusterAddOn: it is a %T", o)
	}
	return a, nil
}
