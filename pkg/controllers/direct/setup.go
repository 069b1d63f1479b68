// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/target"
)

// Informers are what the controller watches.
type Informers struct {
	Configs, Profiles, Clusters, Bindings, Sets cache.SharedIndexInformer
	// Operators are the Deployments of the Knative Operator.
	Operators cache.SharedIndexInformer
	// Providers brings an event when the file of access providers has changed.
	Providers <-chan event.GenericEvent
}

// workers is how many resources are served at a time: some of their clusters are slow, or away.
const workers = 50

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager makes the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, in Informers) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return requests(in.Configs.GetStore().List())
	})
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return found(target.ReferringToName(in.Configs.GetIndexer(), o.GetName()))
	})
	byNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return found(target.ReferringToNamespace(in.Configs.GetIndexer(), o.GetNamespace()))
	})
	self := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("direct-" + r.Component.Resource().Resource).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(&source.Informer{Informer: in.Configs, Handler: self}).
		WatchesRawSource(&source.Informer{Informer: in.Profiles, Handler: byName}).
		WatchesRawSource(&source.Informer{Informer: in.Clusters, Handler: byName}).
		WatchesRawSource(&source.Informer{Informer: in.Bindings, Handler: byNamespace}).
		WatchesRawSource(&source.Informer{Informer: in.Sets, Handler: all}).
		WatchesRawSource(&source.Informer{Informer: in.Operators, Handler: all}).
		WatchesRawSource(source.Channel(in.Providers, all)).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = q
			return nil
		})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("cannot set up the direct controller of %s: %w", r.Component.Kind(), err)
	}
	return nil
}

// found are the requests of what an index has; its only error is that there is no such index.
func found(configs []*unstructured.Unstructured, err error) []reconcile.Request {
	if err != nil {
		return nil
	}
	return requests(configs)
}

func requests[T any](objects []T) []reconcile.Request {
	var out []reconcile.Request
	for _, o := range objects {
		if object, err := apimeta.Accessor(o); err == nil {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}})
		}
	}
	return out
}
