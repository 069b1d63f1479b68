// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

// SetupWithManager makes the manager run the controller. A request names a cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("scores").
		WithOptions(reconciler.Options(1)).
		WatchesRawSource(newSource(h.ManagedClusterAddOns().Informer(), clusterOfAddOn)).
		WatchesRawSource(newSource(h.ManagedClusters().Informer(), func(o client.Object) (string, bool) { return o.GetName(), true })).
		WatchesRawSource(newSource(h.Foundations().Informer(), clusterOfNamespace)).
		WatchesRawSource(newSource(h.Payloads().Informer(), clusterOfNamespace)).
		WatchesRawSource(newSource(h.AddOnPlacementScores().Informer(), clusterOfNamespace)).
		Complete(reconciler.Wrap(r, reconciler.OfCluster))
	if err != nil {
		return fmt.Errorf("cannot set up the scores: %w", err)
	}
	return nil
}

func newSource(informer cache.SharedIndexInformer, cluster func(client.Object) (string, bool)) source.Source {
	return &source.Informer{Informer: informer, Handler: handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, o client.Object) []reconcile.Request {
			name, ok := cluster(o)
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
		})}
}

func clusterOfNamespace(o client.Object) (string, bool) { return o.GetNamespace(), true }

func clusterOfAddOn(o client.Object) (string, bool) {
	_, ok := api.ComponentOfAddOn(o.GetName())
	return o.GetNamespace(), ok
}
