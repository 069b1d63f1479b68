// Copyright Contributors to the Open Cluster Management project

// Package repair has a cluster repaired as soon as it is seen to have drifted.
//
// OCM's work agent watches Knative's workloads and reports them at once, and what else is gone when it next looks, but applies
// again only at its next resync, four to six minutes later. A changed label on the work makes it apply immediately. Somebody who keeps
// changing the same thing is answered ever more slowly, and is told of in an Event.
package repair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	// firstPause and longestPause bound the time between two repairs of a cluster; each doubles the last, and a cluster
	// that has not drifted for twice the longest starts over. The longest is the agent's own interval.
	firstPause, longestPause = 3 * time.Second, 4 * time.Minute
	// loopPause is the pause from which on somebody is taken to change the cluster for ever: the fifth in a row.
	loopPause = 48 * time.Second
)

// Reconciler looks after the payloads of one add-on on one cluster at a time.
type Reconciler struct {
	AddOns     addonlisters.ManagedClusterAddOnLister
	Payloads   worklisters.ManifestWorkLister // works with OCM's add-on label
	WorkClient workclient.Interface
	Bundles    addon.Bundles
	Events     events.EventRecorder
	Clock      clock.PassiveClock
	// Pauses remembers how often a cluster was repaired lately; NewPauses makes it.
	Pauses *flowcontrol.Backoff

	// asked is when a payload was last repaired. Its label says so too, but addon-framework takes the label away whenever
	// it has something of its own to change.
	asked sync.Map
}

// NewPauses makes the memory of a Reconciler.
func NewPauses() *flowcontrol.Backoff { return flowcontrol.NewBackOff(firstPause, longestPause) }

// Reconcile asks the work agent to apply the payloads again if something has drifted.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	a, err := r.AddOns.ManagedClusterAddOns(req.Namespace).Get(req.Name)
	if apierrors.IsNotFound(err) || err == nil && a.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot get ManagedClusterAddOn %q: %w", req, err)
	}
	bundle, err := r.Bundles.Bundle(ctx, a)
	if e := (*render.Error)(nil); errors.As(err, &e) {
		return reconcile.Result{}, nil // nobody knows what the cluster should have
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	payloads, err := r.Payloads.ManifestWorks(req.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: req.Name}))
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot list the works of add-on %q: %w", req, err)
	}
	var result reconcile.Result
	for _, p := range payloads {
		drifted := work.Drifted(p, bundle)
		if len(drifted) == 0 || p.DeletionTimestamp != nil {
			continue
		}
		wait, err := r.repair(ctx, a, p, drifted)
		if err != nil {
			return reconcile.Result{}, err
		}
		result.RequeueAfter = max(result.RequeueAfter, wait)
	}
	return result, nil
}

// repair makes the agent apply the payload, unless it was asked a moment ago, and returns when to look again.
func (r *Reconciler) repair(ctx context.Context, a *addonv1beta1.ManagedClusterAddOn, p *workv1.ManifestWork, drifted []string) (time.Duration, error) {
	id, now := p.Namespace+"/"+p.Name, r.Clock.Now()
	pause := r.Pauses.Get(id)
	if last, ok := r.lastAsked(id, p); ok && pause > 0 {
		if wait := last.Add(pause).Sub(now); wait > 0 {
			return wait, nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]any{api.RepairLabel: strconv.FormatInt(now.Unix(), 10)},
	}})
	if err != nil {
		return 0, fmt.Errorf("cannot encode a label: %w", err)
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot label ManifestWork %q: %w", id, err)
	}
	r.asked.Store(id, now)
	r.Pauses.Next(id, now)
	pause = r.Pauses.Get(id)
	if pause >= loopPause {
		r.Events.Eventf(a, p, corev1.EventTypeWarning, "DriftLoop", "Repair",
			"Somebody on cluster %q keeps changing what add-on %q installs; repairs slow down: %s", a.Namespace, a.Name, strings.Join(drifted, "; "))
	} else {
		r.Events.Eventf(a, p, corev1.EventTypeNormal, "DriftRepaired", "Repair",
			"The work agent of cluster %q was asked to apply again: %s", a.Namespace, strings.Join(drifted, "; "))
	}
	return pause, nil
}

// lastAsked is when the payload was last repaired, by this manager or by one before it.
func (r *Reconciler) lastAsked(id string, p *workv1.ManifestWork) (time.Time, bool) {
	if at, ok := r.asked.Load(id); ok {
		if at, ok := at.(time.Time); ok {
			return at, true
		}
	}
	seconds, err := strconv.ParseInt(p.Labels[api.RepairLabel], 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// SetupWithManager makes the manager run the controller on the events of the payloads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, payloads cache.SharedIndexInformer) error {
	requests := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[addonv1beta1.AddonLabelKey]}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("repair").
		WatchesRawSource(&source.Informer{Informer: payloads, Handler: requests}).Complete(r)
	if err != nil {
		return fmt.Errorf("cannot set up the repair controller: %w", err)
	}
	return nil
}
