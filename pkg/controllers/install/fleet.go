// Copyright Contributors to the Open Cluster Management project

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/report"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// countPause is the least time between two writes of a fleet configuration's counts: each makes OCM look again at every
// add-on that uses it.
const countPause = 5 * time.Second

// reportFleet tells who uses a resource that refers to no cluster.
func (r *Reconciler) reportFleet(ctx context.Context, s *scope) (reconcile.Result, error) {
	fleet, err := r.fleet(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	last, err := report.StatusOf(s.config)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := report.Status{
		ObservedGeneration: s.config.GetGeneration(), Conditions: status.FleetConditions(fleet),
		Version: cmp.Or(fleet.Version, last.Version), // what cannot be rendered changes no cluster
	}
	if last.Same(now) {
		return reconcile.Result{}, nil
	}
	name, at := nameOf(s), r.Clock.Now()
	if wait := r.counted.due(name).Sub(at); wait > 0 && last.ObservedGeneration == now.ObservedGeneration {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.counted.done(name, at)
	return reconcile.Result{}, r.reporter().Write(ctx, s.config, last, now)
}

// fleet counts the add-ons that the resource configures.
func (r *Reconciler) fleet(ctx context.Context, s *scope) (status.Fleet, error) {
	out := status.Fleet{Paused: revision.Paused(s.config.GetAnnotations())}
	gvr := r.Component.Resource()
	objects, err := r.AddOnsByConfig.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s", gvr.Group, gvr.Resource, key(s)))
	if err != nil {
		return out, fmt.Errorf("cannot find the add-ons that %s %q configures: %w", r.Component.Kind(), key(s), err)
	}
	for _, o := range objects {
		addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn)
		if !ok || addOn.Name != r.Component.AddOnName() {
			continue
		}
		out.Clusters = append(out.Clusters, addOn.Namespace)
		if !apimeta.IsStatusConditionTrue(addOn.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable) {
			out.NotReady = append(out.NotReady, addOn.Namespace)
		}
		if apimeta.IsStatusConditionTrue(addOn.Status.Conditions, api.RemovalHeld) {
			out.Held = append(out.Held, addOn.Namespace)
		}
		if apimeta.IsStatusConditionFalse(addOn.Status.Conditions, api.ValuesResolved) {
			out.Incomplete = append(out.Incomplete, addOn.Namespace)
		}
	}
	out.Version, err = r.Bundles.Version(ctx, r.Component, nameOf(s))
	if err != nil && !errors.As(err, &out.Fault) {
		return out, err
	}
	return out, nil
}

// pacer remembers when something was last done, by name. Forgetting it costs one write.
type pacer struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

// due is when it may be done next.
func (p *pacer) due(name types.NamespacedName) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[name].Add(countPause)
}

func (p *pacer) done(name types.NamespacedName, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[types.NamespacedName]time.Time{}
	}
	p.last[name] = at
}
