// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Informers are what the controller watches.
type Informers struct {
	Configs cache.SharedIndexInformer
	// Operators are the Deployments of the Knative Operator.
	Operators cache.SharedIndexInformer
	// Changes brings an event when something of the component has changed on a cluster.
	Changes <-chan event.GenericEvent
}

// Changed is the event for Informers.Changes. All resources of the component are looked at, which costs no request where
// nothing has changed.
func Changed() event.GenericEvent { return event.GenericEvent{Object: &metav1.PartialObjectMetadata{}} }

// workers is how many resources are served at a time.
const workers = 10

// SetupWithManager makes the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, in Informers) error {
	self := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	})
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		var out []reconcile.Request
		for _, o := range in.Configs.GetStore().List() {
			if object, err := apimeta.Accessor(o); err == nil {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}})
			}
		}
		return out
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("direct-" + r.Component.Resource().Resource).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(&source.Informer{Informer: in.Configs, Handler: self}).
		WatchesRawSource(&source.Informer{Informer: in.Operators, Handler: all}).
		WatchesRawSource(source.Channel(in.Changes, all)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("cannot set up the direct controller of %s: %w", r.Component.Kind(), err)
	}
	return nil
}
