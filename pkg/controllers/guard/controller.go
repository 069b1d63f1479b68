// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Reconciler guards the add-ons of one component at a time.
type Reconciler struct {
	// AddOns are the ManagedClusterAddOns with AddOnIndexers, Foundations the works with api.FoundationLabel and
	// FoundationIndexers.
	AddOns, Foundations cache.Indexer
	Definitions         addonlisters.ClusterManagementAddOnLister
	Clusters            clusterlisters.ManagedClusterLister
	Placements          clusterlistersv1beta1.PlacementLister
	Decisions           clusterlistersv1beta1.PlacementDecisionLister
	Configs             map[api.Component]cache.GenericLister
	Payloads            worklisters.ManifestWorkLister // works with OCM's add-on label

	AddOnClient addonclient.Interface
	WorkClient  workclient.Interface
	Events      events.EventRecorder
	Clock       clock.PassiveClock
	// MaxRemoval is how many clusters of a component may lose it within an hour without confirmation.
	MaxRemoval intstr.IntOrString
	// Held counts what is held.
	Held *Gauge

	// warned is the last answer per component that is none, so that it is told of once.
	warned map[api.Component]string
}

const (
	// staleRetry is after how long a reconcile that has read an old object is done again, unless an event comes first.
	staleRetry = time.Second
	// faultRetry is after how long at most a reconcile with a fault is done again when others wait for the clock.
	faultRetry = time.Minute
)

// Reconcile decides on all add-ons of a component that are being deleted.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	component, ok := componentOf(req.Name)
	if !ok {
		return reconcile.Result{}, nil
	}
	s, err := r.gather(component)
	if err != nil {
		return reconcile.Result{}, err
	}
	fault := r.recreate(ctx, s) // which keeps nobody from a decision
	err = errors.Join(r.answer(ctx, s), r.follow(ctx, s))
	wait := s.wait()
	if onlyStale(err) {
		err, wait = nil, staleRetry // the cache is behind; no fault
	}
	if err = errors.Join(fault, err); err == nil || wait == 0 {
		return reconcile.Result{RequeueAfter: wait}, err
	}
	// What is due by the clock does not wait for what fails again and again.
	log.FromContext(ctx).Error(err, "cannot serve every add-on")
	return reconcile.Result{RequeueAfter: min(wait, faultRetry)}, nil
}

// follow decides, and does what was decided.
func (r *Reconciler) follow(ctx context.Context, s *scope) error {
	if err := r.decide(s); err != nil {
		return err
	}
	return r.act(ctx, s)
}

// wait is after how long the first decision may be another by itself.
func (s *scope) wait() time.Duration {
	first := pending{}
	for _, p := range s.leaving {
		first.soon(p.wait)
	}
	return first.wait
}

// onlyStale tells that nothing is wrong but that objects have changed since they were read.
func onlyStale(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !onlyStale(e) {
				return false
			}
		}
		return true
	}
	return err != nil && (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err))
}

// decide decides on every add-on, first each by itself, then all that are left by the brake.
func (r *Reconciler) decide(s *scope) error {
	for _, p := range s.leaving {
		in, err := r.inputOf(s, p)
		if err != nil {
			return err
		}
		p.decision = determine(in)
	}
	joinBatch(s.leaving)
	return r.brake(s)
}

// brake decides on the add-ons whose removals are counted.
func (r *Reconciler) brake(s *scope) error {
	b := brake{removed: s.ledger(), maxRemoval: r.MaxRemoval, now: s.now}
	byID := map[string]*pending{}
	for _, p := range s.leaving {
		switch {
		case p.decision.verdict == count:
			id := idOf(p.UID)
			byID[id] = p
			b.candidates = append(b.candidates, candidate{id: id, deleted: p.DeletionTimestamp.Time, braked: p.braked()})
		case p.decision.reason == api.ReasonPlacementSettling:
			b.settling++
		}
	}
	if len(b.candidates) == 0 {
		return nil
	}
	fleet, err := r.fleet(s, b.removed)
	if err != nil {
		return err
	}
	b.fleet = fleet
	out := determineBraking(&b)
	for _, id := range out.allowed {
		p := byID[id]
		if _, counted := b.removed[id]; !counted {
			if wait := s.replaced(p); wait > 0 {
				p.decision = replacing()
				p.soon(wait)
				continue
			}
		}
		p.decision = allowed()
		p.decision.counted = true
	}
	for _, id := range out.held {
		byID[id].decision = massRemoval(s.component)
	}
	for _, id := range out.waiting {
		byID[id].decision = settling("more may be deleted")
		byID[id].soon(out.wait)
	}
	return nil
}

func (s *scope) ledger() ledger {
	if s.definition == nil {
		return ledger{}
	}
	return parseLedger(s.definition.Annotations[api.RemovalsAnnotation], s.now)
}

// fleet is how many clusters have the add-on, or had it within the window. Without a ClusterManagementAddOn nobody counts
// removals; then those that are under way are put into the ledger.
func (r *Reconciler) fleet(s *scope, removed ledger) (int, error) {
	all, err := r.AddOns.ByIndex(NameIndex, s.component.AddOnName())
	if err != nil {
		return 0, fmt.Errorf("cannot list the add-ons: %w", err)
	}
	fleet := len(all)
	there := map[string]bool{}
	for _, o := range all {
		a, err := addOnOf(o)
		if err != nil {
			return 0, err
		}
		there[idOf(a.UID)] = true
		if s.definition == nil && a.DeletionTimestamp != nil && a.Annotations[api.RemovalAllowedAnnotation] != "" {
			removed[idOf(a.UID)] = s.now
		}
	}
	for id := range removed {
		if !there[id] {
			fleet++
		}
	}
	return fleet, nil
}

func componentOf(addOnName string) (api.Component, bool) {
	for _, c := range api.Components() {
		if c.AddOnName() == addOnName {
			return c, true
		}
	}
	return "", false
}
