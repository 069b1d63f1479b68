// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

const (
	// workers is the number of KnativeFleets that are reconciled at a time.
	workers = 2
	// batchDelay is the time in which events of other objects than the KnativeFleet lead to one pass: each of 5,000 children has events.
	batchDelay = 300 * time.Millisecond
)

// SetupWithManager makes the manager run the controller. A request names a KnativeFleet.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	fleets := h.KnativeFleets().Informer().GetIndexer()
	inNamespace := func(o client.Object) []types.NamespacedName { return listFleets(fleets, o.GetNamespace()) }
	all := func(context.Context, client.Object) []reconcile.Request {
		var out []reconcile.Request
		for _, name := range namesOf(fleets.List()) {
			out = append(out, reconcile.Request{NamespacedName: name})
		}
		return out
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("knativefleets").WithOptions(reconciler.Options(workers)).
		WatchesRawSource(&source.Informer{Informer: h.KnativeFleets().Informer(), Handler: &handler.EnqueueRequestForObject{}}).
		WatchesRawSource(newSource(h.ClusterProfiles().Informer(), inNamespace)).
		WatchesRawSource(h.ClusterProfiles().NewErrorSource(all)).
		WatchesRawSource(newSource(h.Placements().Informer(), inNamespace)).
		WatchesRawSource(newSource(h.PlacementDecisions().Informer(), inNamespace)).
		WatchesRawSource(newSource(h.InventoryDecisions().Informer(), inNamespace)).
		WatchesRawSource(h.InventoryDecisions().NewErrorSource(all))
	for _, c := range api.Components() {
		b = b.WatchesRawSource(newSource(h.Configs(c).Informer(), func(o client.Object) []types.NamespacedName {
			if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == fleetv1alpha1.Kind {
				return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: owner.Name}}
			}
			return inNamespace(o)
		}))
	}
	if err := b.Complete(reconciler.Wrap(r, reconciler.OfOther)); err != nil {
		return fmt.Errorf("cannot set up the controller of KnativeFleet: %w", err)
	}
	return nil
}

func listFleets(fleets cache.Indexer, namespace string) []types.NamespacedName {
	objects, err := fleets.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil // the cache has the index
	}
	return namesOf(objects)
}

func namesOf(fleets []any) []types.NamespacedName {
	var out []types.NamespacedName
	for _, o := range fleets {
		if fleet, ok := o.(*unstructured.Unstructured); ok {
			out = append(out, types.NamespacedName{Namespace: fleet.GetNamespace(), Name: fleet.GetName()})
		}
	}
	return out
}

// newSource returns a source whose events lead to one pass within batchDelay.
func newSource(informer cache.SharedIndexInformer, fleets func(client.Object) []types.NamespacedName) source.Source {
	enqueue := func(q workqueue.TypedRateLimitingInterface[reconcile.Request], o client.Object) {
		for _, name := range fleets(o) {
			q.AddAfter(reconcile.Request{NamespacedName: name}, batchDelay)
		}
	}
	return &source.Informer{Informer: informer, Handler: handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, e.Object)
		},
	}}
}
