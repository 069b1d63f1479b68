// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
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

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// batchDelay is the time in which events of add-ons lead to one pass over a component.
const batchDelay = 300 * time.Millisecond

// SetupWithManager makes the manager run the controller. startsPass names the changes that start a pass.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("renderings").WithOptions(reconciler.Options(len(api.Components()))).
		WatchesRawSource(newSource(h.ManagedClusterAddOns().Informer(), client.Object.GetName))
	for _, c := range api.Components() {
		b = b.WatchesRawSource(newSource(h.Configs(c).Informer(), func(client.Object) string { return c.AddOnName() }))
	}
	if err := b.Complete(reconciler.Wrap(r, reconciler.OfOther)); err != nil {
		return fmt.Errorf("cannot set up the controller of renderings: %w", err)
	}
	return nil
}

// newSource requests a pass over the ClusterManagementAddOn that the function names, when a change of an object starts a pass.
func newSource(informer cache.SharedIndexInformer, definitionOf func(client.Object) string) source.Source {
	enqueue := func(q workqueue.TypedRateLimitingInterface[reconcile.Request], before, after client.Object) {
		if startsPass(before, after) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: definitionOf(after)}}, batchDelay)
		}
	}
	return &source.Informer{Informer: informer, Handler: handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, nil, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, e.ObjectOld, e.ObjectNew)
		},
	}}
}

// startsPass reports whether a change of an object starts a pass: another status or message of condition RenderingCurrent, the end of a
// pause, or the return of a cluster that waits for its turn. before is nil for an object that the cache did not have.
func startsPass(before, after client.Object) bool {
	conditions := conditionsOf(after)
	current := apimeta.FindStatusCondition(conditions, api.RenderingCurrent)
	if before == nil {
		return current != nil
	}
	if revision.Paused(before.GetAnnotations()) && !revision.Paused(after.GetAnnotations()) {
		return true
	}
	if current == nil {
		return false
	}
	former := conditionsOf(before)
	if last := apimeta.FindStatusCondition(former, api.RenderingCurrent); last == nil || last.Status != current.Status || last.Message != current.Message {
		return true
	}
	return current.Status == metav1.ConditionFalse &&
		apimeta.IsStatusConditionTrue(conditions, api.TargetClusterResolved) && !apimeta.IsStatusConditionTrue(former, api.TargetClusterResolved)
}

// conditionsOf returns the conditions of an add-on, or of a resource without a work agent; nil for any other object. The add-on of a
// resource has condition RenderingCurrent too.
func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *addonv1beta1.ManagedClusterAddOn:
		return o.Status.Conditions
	case *unstructured.Unstructured:
		if conditions, err := readConditions(o); err == nil && isDirect(o) {
			return conditions
		}
	}
	return nil
}
