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
)

// Informers are what the controller watches.
type Informers struct {
	AddOns, Clusters, Foundations, Payloads, Scores cache.SharedIndexInformer
}

// SetupWithManager makes the manager run the controller. A request is a cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, in Informers) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("scores").
		WatchesRawSource(watch(in.AddOns, func(o client.Object) (string, bool) { return o.GetNamespace(), ours(o.GetName()) })).
		WatchesRawSource(watch(in.Clusters, func(o client.Object) (string, bool) { return o.GetName(), true })).
		WatchesRawSource(watch(in.Foundations, inNamespace)).
		WatchesRawSource(watch(in.Payloads, inNamespace)).
		WatchesRawSource(watch(in.Scores, inNamespace)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("cannot set up the scores: %w", err)
	}
	return nil
}

func watch(informer cache.SharedIndexInformer, cluster func(client.Object) (string, bool)) source.Source {
	return &source.Informer{Informer: informer, Handler: handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, o client.Object) []reconcile.Request {
			name, ok := cluster(o)
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
		})}
}

func inNamespace(o client.Object) (string, bool) { return o.GetNamespace(), true }

func ours(addOn string) bool {
	for _, c := range api.Components() {
		if c.AddOnName() == addOn {
			return true
		}
	}
	return false
}
