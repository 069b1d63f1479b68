// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// workers is the number of resources that are reconciled at the same time. A worker waits mostly for the hub's API server, and OCM
// may refer to a new spec before the spec is recorded.
const workers = 5

// SetupWithManager makes the manager run the controller. A change of a revision brings its resource back: a deleted revision is
// recorded again, and a rollback finds a revision that is recorded after the request.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, c hub.Configuration) error {
	err := r.newBuilder(mgr, c.Configs.Informer(), c.Revisions.Informer()).Complete(reconciler.Wrap(r, reconciler.OfComponent(r.Component)))
	if err != nil {
		return fmt.Errorf("cannot set up the configuration history of %s: %w", r.Component.Kind(), err)
	}
	return nil
}

// newBuilder returns the builder of a controller that records the resources in the cache.
func (r *Recorder) newBuilder(mgr ctrl.Manager, configs, revisions cache.SharedIndexInformer) *builder.Builder {
	return ctrl.NewControllerManagedBy(mgr).Named("configuration-" + r.Kind.Resource().Resource).
		WithOptions(reconciler.Options(workers)).
		WatchesRawSource(&source.Informer{Informer: configs, Handler: r.configHandler()}).
		WatchesRawSource(&source.Informer{Informer: revisions, Handler: handler.EnqueueRequestsFromMapFunc(r.observeRevision)})
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// configHandler enqueues the resource of every event and remembers each object that may hold another spec.
func (r *Recorder) configHandler() handler.EventHandler {
	enqueue := handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			r.observeSpec(e.Object)
			enqueue.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if !hasSameSpec(e.ObjectOld, e.ObjectNew) {
				r.observeSpec(e.ObjectNew)
			}
			enqueue.Update(ctx, e, q)
		},
		DeleteFunc: enqueue.Delete,
	}
}

func (r *Recorder) observeSpec(o client.Object) {
	if config, ok := o.(*unstructured.Unstructured); ok {
		r.observations.addSpec(config)
	}
}

// hasSameSpec reports whether an update left the spec and the annotations that affect rendering alone.
func hasSameSpec(before, after client.Object) bool {
	return before.GetUID() == after.GetUID() && before.GetGeneration() == after.GetGeneration() &&
		maps.Equal(revision.Annotations(before.GetAnnotations()), revision.Annotations(after.GetAnnotations()))
}

// observeRevision returns the request for the resource of a revision and has the next pass compare its revisions with the resource.
func (r *Recorder) observeRevision(_ context.Context, o client.Object) []reconcile.Request {
	recorded, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil
	}
	kind, name, ok := revision.ResourceOf(recorded)
	if !ok || kind != r.Kind {
		return nil
	}
	r.observations.markUnchecked(name)
	return []reconcile.Request{{NamespacedName: name}}
}
