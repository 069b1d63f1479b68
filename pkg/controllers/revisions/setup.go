// Copyright Contributors to the Open Cluster Management project

package revisions

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/revision"
)

// workers is how many resources are recorded at a time: what one waits for is the hub's API server, and OCM may be faster.
const workers = 5

// SetupWithManager makes the manager run the controller. A revision that somebody deletes is recorded again.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, configs, revisions cache.SharedIndexInformer) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("revisions-" + r.Component.Resource().Resource).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(&source.Informer{Informer: configs, Handler: r.events()}).
		WatchesRawSource(&source.Informer{Informer: revisions, Handler: handler.EnqueueRequestsFromMapFunc(r.ofRevision)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("cannot set up the revisions of %s: %w", r.Component.Kind(), err)
	}
	return nil
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// events remembers the object of each event that may have brought another spec.
func (r *Reconciler) events() handler.EventHandler {
	see := func(o client.Object, q queue) {
		if config, ok := o.(*unstructured.Unstructured); ok {
			r.seen.add(config)
			q.Add(reconcile.Request{NamespacedName: nameOf(config)})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { see(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if !same(e.ObjectOld, e.ObjectNew) {
				see(e.ObjectNew, q)
			}
		},
	}
}

// same tells that a change was of the status, or of annotations that do not matter.
func same(before, after client.Object) bool {
	return before.GetUID() == after.GetUID() && before.GetGeneration() == after.GetGeneration() &&
		maps.Equal(revision.Annotations(before.GetAnnotations()), revision.Annotations(after.GetAnnotations()))
}

func (r *Reconciler) ofRevision(_ context.Context, o client.Object) []reconcile.Request {
	rev, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil
	}
	component, name, ok := revision.ResourceOf(rev)
	if !ok || component != r.Component {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}
