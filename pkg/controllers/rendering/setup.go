// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
)

// batchDelay is the time in which events of add-ons lead to one pass over a component.
const batchDelay = 300 * time.Millisecond

// SetupWithManager makes the manager run the controller. Only a change of condition RenderingCurrent starts a pass.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	enqueue := func(q workqueue.TypedRateLimitingInterface[reconcile.Request], before, after client.Object) {
		if c := conditionOf(after); c != nil && (before == nil || !isSame(c, conditionOf(before))) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: after.GetName()}}, batchDelay)
		}
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("renderings").WithOptions(reconciler.Options(len(api.Components()))).
		WatchesRawSource(&source.Informer{Informer: h.ManagedClusterAddOns().Informer(), Handler: handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				enqueue(q, nil, e.Object)
			},
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				enqueue(q, e.ObjectOld, e.ObjectNew)
			},
		}}).Complete(reconciler.Wrap(r, reconciler.OfOther))
	if err != nil {
		return fmt.Errorf("cannot set up the controller of renderings: %w", err)
	}
	return nil
}

func conditionOf(o client.Object) *metav1.Condition {
	a, ok := o.(*addonv1beta1.ManagedClusterAddOn)
	if !ok {
		return nil
	}
	return apimeta.FindStatusCondition(a.Status.Conditions, api.RenderingCurrent)
}

func isSame(a, b *metav1.Condition) bool {
	return b != nil && a.Status == b.Status && a.Message == b.Message
}
