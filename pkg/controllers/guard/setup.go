// Copyright Contributors to the Open Cluster Management project

package guard

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
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Informers are what the controller watches.
type Informers struct {
	AddOns, Definitions, Clusters, Placements, Decisions, Foundations, Payloads cache.SharedIndexInformer
	// Configs are the informers of KnativeServings and KnativeEventings.
	Configs map[api.Component]cache.SharedIndexInformer
}

// SetupWithManager makes the manager run the controller. There are as many requests as components, and a reconcile with
// nothing to decide is two look-ups, so that every event may ask for one.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, in Informers) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("guard").
		WatchesRawSource(watch(in.AddOns, func(o client.Object) string { return o.GetName() })).
		WatchesRawSource(watch(in.Definitions, func(o client.Object) string { return o.GetName() })).
		WatchesRawSource(watch(in.Foundations, func(o client.Object) string { return o.GetLabels()[api.FoundationLabel] })).
		WatchesRawSource(watch(in.Payloads, func(o client.Object) string { return o.GetLabels()[addonv1beta1.AddonLabelKey] }))
	for _, informer := range []cache.SharedIndexInformer{in.Clusters, in.Placements, in.Decisions} {
		for _, c := range api.Components() {
			b = b.WatchesRawSource(watch(informer, func(client.Object) string { return c.AddOnName() }))
		}
	}
	for c, informer := range in.Configs {
		b = b.WatchesRawSource(watch(informer, func(client.Object) string { return c.AddOnName() }))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("cannot set up the guard: %w", err)
	}
	return nil
}

func watch(informer cache.SharedIndexInformer, addOn func(client.Object) string) source.Source {
	return &source.Informer{Informer: informer, Handler: handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, o client.Object) []reconcile.Request {
			c, ok := componentOf(addOn(o))
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: c.AddOnName()}}}
		})}
}

// Names of the indexes that a Reconciler reads.
const (
	// NameIndex is of our ManagedClusterAddOns by name.
	NameIndex = "guardName"
	// DeletingIndex is of those by name that are being deleted and hold an installation.
	DeletingIndex = "guardDeleting"
	// HandoverIndex is of the foundations by component that wait for an add-on.
	HandoverIndex = "guardHandover"
)

// AddOnIndexers index ManagedClusterAddOns.
func AddOnIndexers() cache.Indexers {
	indexed := func(o any, matches func(*addonv1beta1.ManagedClusterAddOn) bool) ([]string, error) {
		a, err := addOnOf(o)
		if err != nil {
			return nil, err
		}
		if _, ours := componentOf(a.Name); !ours || !matches(a) {
			return nil, nil
		}
		return []string{a.Name}, nil
	}
	return cache.Indexers{
		NameIndex: func(o any) ([]string, error) {
			return indexed(o, func(*addonv1beta1.ManagedClusterAddOn) bool { return true })
		},
		DeletingIndex: func(o any) ([]string, error) {
			return indexed(o, func(a *addonv1beta1.ManagedClusterAddOn) bool {
				return a.DeletionTimestamp != nil && slices.Contains(a.Finalizers, api.FoundationFinalizer)
			})
		},
	}
}

// FoundationIndexers index foundations.
func FoundationIndexers() cache.Indexers {
	return cache.Indexers{HandoverIndex: func(o any) ([]string, error) {
		w, ok := o.(*workv1.ManifestWork)
		if !ok || w.Annotations[api.HandoverAnnotation] == "" {
			return nil, nil
		}
		return []string{w.Labels[api.FoundationLabel]}, nil
	}}
}

func addOnOf(o any) (*addonv1beta1.ManagedClusterAddOn, error) {
	a, ok := o.(*addonv1beta1.ManagedClusterAddOn)
	if !ok {
		return nil, fmt.Errorf("cannot read a ManagedClusterAddOn: it is a %T", o)
	}
	return a, nil
}
