// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// driftNoteLimit is the number of bytes that an Event repeats of the report of a cluster.
const driftNoteLimit = 800

// DriftReconciler makes the work agent of a cluster repair drifted objects at once. The agent watches Knative's workloads and
// reports a change at once, and reports other missing objects at the next check of the status. The agent applies a work again only
// at the next resync, four to six minutes later. A changed label on the work makes the agent apply the work immediately. Repeated
// drift of the same payload is repaired at growing intervals, and an Event reports the loop.
//
// Repairs have a queue of their own, which only events of works fill. A pass of Reconciler follows an edit of the configuration
// too: the pass would compare the old payload with the new bundle, and report a drift before the payload changes.
type DriftReconciler struct {
	AddOns      addonlisters.ManagedClusterAddOnLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	WorkClient  workclient.Interface
	Bundles     addon.Bundles
	Events      events.EventRecorder
	Clock       clock.PassiveClock
	// Backoff holds the repair interval of each work; NewRepairBackoff returns a Backoff.
	Backoff *flowcontrol.Backoff

	// repairedAt holds the time of the last repair of each work. The repair label of the work holds the time too, but
	// addon-framework removes the label with each change of a payload.
	repairedAt sync.Map
	// skippedApplies holds a skippedApply for each payload that the agent has observed and not applied.
	skippedApplies sync.Map
}

// NewRepairBackoff returns the Backoff of a DriftReconciler.
func NewRepairBackoff() *flowcontrol.Backoff {
	return flowcontrol.NewBackOff(delivery.FirstRepairInterval, delivery.LongestRepairInterval)
}

// Reconcile makes the work agent apply the foundation and the payloads of one add-on again if an object has drifted, or if the agent
// skips a payload.
func (r *DriftReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := &scope{component: api.Component(req.Name), namespace: req.Namespace}
	if err := s.gatherWorks(r.Foundations, r.Payloads); err != nil {
		return reconcile.Result{}, err
	}
	nextRequest, err := r.requestSkippedApplies(ctx, s.payloads)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.repairDrift(ctx, req, s)
	result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, nextRequest)
	return result, err
}

// repairDrift makes the work agent apply the works with drift again.
func (r *DriftReconciler) repairDrift(ctx context.Context, req reconcile.Request, s *scope) (reconcile.Result, error) {
	a, err := r.AddOns.ManagedClusterAddOns(req.Namespace).Get(req.Name)
	if apierrors.IsNotFound(err) || err == nil && a.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot get ManagedClusterAddOn %q: %w", req, err)
	}
	bundle, fault, err := addon.DetermineBundle(ctx, r.Bundles, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	if addon.IsRendering(fault) {
		return reconcile.Result{RequeueAfter: pendingRetry}, nil
	}
	workloads, err := expectedWorkloads(bundle, s.payloads)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.foundation != nil && manifestwork.IsProbe(s.foundation) {
		s.foundation = nil // a probe may look for objects that do not exist
	}
	var result reconcile.Result
	for _, w := range s.listWorks() {
		drifted := manifestwork.Drifted(w, workloads)
		if len(drifted) == 0 || w.DeletionTimestamp != nil {
			continue
		}
		wait, err := r.repairWork(ctx, a, w, drifted)
		if err != nil {
			return reconcile.Result{}, err
		}
		result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, wait)
	}
	return result, nil
}

// expectedWorkloads returns the workloads of the bundle. A configuration that yields no bundle, and a rendering that waits for its
// turn, leave the cluster as it is: the payloads then name the workloads.
func expectedWorkloads(bundle *render.Bundle, payloads []*workv1.ManifestWork) ([]workload.Expected, error) {
	if bundle != nil && !manifestwork.HasOtherRendering(bundle, payloads) {
		return bundle.Workloads, nil
	}
	return manifestwork.KeptWorkloads(payloads)
}

// repairWork makes the agent apply the work, unless the repair interval is not over, and returns the time until the next
// pass.
func (r *DriftReconciler) repairWork(
	ctx context.Context, a *addonv1beta1.ManagedClusterAddOn, w *workv1.ManifestWork, drifted []string,
) (time.Duration, error) {
	id, now := w.Namespace+"/"+w.Name, r.Clock.Now()
	interval := r.Backoff.Get(id)
	if last, ok := r.lastRepair(id, w); ok && interval > 0 {
		if wait := last.Add(interval).Sub(now); wait > 0 {
			return wait, nil
		}
	}
	if err := requestApply(ctx, r.WorkClient, w, now); err != nil {
		return 0, err
	}
	r.forgetRepairs(now)
	r.repairedAt.Store(id, now)
	r.Backoff.Next(id, now)
	interval = r.Backoff.Get(id)
	if interval >= delivery.DriftLoopInterval {
		r.Events.Eventf(a, w, corev1.EventTypeWarning, "DriftLoop", "Repair",
			"A client of cluster %q keeps changing objects of add-on %q, and repairs slow down: %s", a.Namespace, a.Name, message.OneLine(strings.Join(drifted, "; "), driftNoteLimit))
	} else {
		r.Events.Eventf(a, w, corev1.EventTypeNormal, "DriftRepaired", "Repair",
			"The manager requested the work agent of cluster %q to apply again: %s", a.Namespace, message.OneLine(strings.Join(drifted, "; "), driftNoteLimit))
	}
	return interval, nil
}

// forgetRepairs forgets the works without a repair for so long that the first repair interval applies again.
func (r *DriftReconciler) forgetRepairs(now time.Time) {
	r.Backoff.GC()
	r.repairedAt.Range(func(id, stored any) bool {
		if at, ok := stored.(time.Time); !ok || now.Sub(at) > 2*delivery.LongestRepairInterval {
			r.repairedAt.Delete(id)
		}
		return true
	})
}

// lastRepair returns the time of the last repair of the work, by this manager or by an earlier manager.
func (r *DriftReconciler) lastRepair(id string, w *workv1.ManifestWork) (time.Time, bool) {
	if stored, ok := r.repairedAt.Load(id); ok {
		if at, ok := stored.(time.Time); ok {
			return at, true
		}
	}
	return lastApplyRequest(w)
}

// lastApplyRequest returns the time that the repair label of the work holds.
func lastApplyRequest(w *workv1.ManifestWork) (time.Time, bool) {
	seconds, err := strconv.ParseInt(w.Labels[api.RepairLabel], 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// requestApply sets the repair label of the work to the time, in seconds since 1970. The work agent applies a work with a changed
// label again.
func requestApply(ctx context.Context, works workclient.Interface, w *workv1.ManifestWork, at time.Time) error {
	_, err := hub.PatchUnlocked(ctx, works.WorkV1().ManifestWorks(w.Namespace), w, func(changed *workv1.ManifestWork) {
		metav1.SetMetaDataLabel(&changed.ObjectMeta, api.RepairLabel, strconv.FormatInt(at.Unix(), 10))
	})
	return err
}

// SetupWithManager makes the manager run the controller on the events of the works.
func (r *DriftReconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("managedclusteraddon-drift").
		WithOptions(reconciler.Options(1)).
		WatchesRawSource(watchInformer(h.Foundations().Informer(), requestOfLabel(api.FoundationLabel))).
		WatchesRawSource(watchInformer(h.Payloads().Informer(), requestOfLabel(addonv1beta1.AddonLabelKey))).Complete(reconciler.Wrap(r, reconciler.OfAddOn))
	if err != nil {
		return fmt.Errorf("cannot set up the drift controller of ManagedClusterAddOns: %w", err)
	}
	return nil
}
