// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

// Permissions decides which annotations of an add-on count. A target.Finder implements it.
type Permissions interface {
	// Removal returns the value of an annotation that decides how the installation is removed; empty when the value does not count.
	Removal(addon *addonv1beta1.ManagedClusterAddOn, annotation string) string
}

// Reconciler guards the add-ons of one component in each pass.
type Reconciler struct {
	// AddOns caches the ManagedClusterAddOns with addOnIndexers, Foundations the works with api.FoundationLabel, Revisions the
	// ControllerRevisions with api.RevisionLabel and revision.Indexers.
	AddOns, Foundations, Revisions cache.Indexer
	Definitions                    addonlisters.ClusterManagementAddOnLister
	Clusters                       clusterlisters.ManagedClusterLister
	Placements                     clusterlistersv1beta1.PlacementLister
	Decisions                      clusterlistersv1beta1.PlacementDecisionLister
	Configs                        map[api.Component]cache.GenericLister
	Payloads                       worklisters.ManifestWorkLister // works with OCM's add-on label

	AddOnClient addonclient.Interface
	WorkClient  workclient.Interface
	// Permissions decides which annotations of an add-on count.
	Permissions Permissions
	// RevisionClient writes the records of hand-overs.
	RevisionClient kubernetes.Interface
	Events         events.EventRecorder
	Clock          clock.PassiveClock
	// MaxRemoval is the number, or the percentage, of clusters from which a component may be removed within an hour without
	// confirmation.
	MaxRemoval intstr.IntOrString
	// Held counts the held add-ons.
	Held *Gauge

	// warned holds the latest invalid confirmation by component, so that each makes one Event.
	warned map[api.Component]string
}

const (
	// staleRetry is the delay after a write that the hub refused because the cache was behind, unless an event comes first.
	staleRetry = time.Second
	// faultRetry is the longest delay after a fault while other add-ons wait for a time.
	faultRetry = time.Minute
)

// Reconcile decides on all add-ons of a component that are being deleted.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	component, ok := api.ComponentOfAddOn(req.Name)
	if !ok {
		return reconcile.Result{}, nil
	}
	s, err := r.gatherScope(component)
	if err != nil {
		return reconcile.Result{}, err
	}
	fault := r.recreateAddOns(ctx, s) // a fault stops no decision
	err = r.applyConfirmation(ctx, s)
	s.confirming = err != nil
	if !s.confirming || !reconciler.EveryError(err, isStale) {
		err = errors.Join(err, r.decideAndAct(ctx, s))
	}
	wait := s.nextWait()
	if reconciler.EveryError(err, isStale) {
		err, wait = nil, staleRetry // the cache was behind; this is no fault
	}
	if err = errors.Join(fault, err); err == nil || wait == 0 {
		return reconcile.Result{RequeueAfter: wait}, err
	}
	// Add-ons that wait for a time must not wait for the growing delays of a permanent fault.
	log.FromContext(ctx).Error(err, "cannot serve every add-on")
	return reconcile.Result{RequeueAfter: min(wait, faultRetry)}, nil
}

// decideAndAct determines and applies the decisions.
func (r *Reconciler) decideAndAct(ctx context.Context, s *scope) error {
	if err := r.determineDecisions(s); err != nil {
		return err
	}
	return r.applyDecisions(ctx, s)
}

// nextWait returns the delay until the first decision may change without an event, 0 for never.
func (s *scope) nextWait() time.Duration {
	var first time.Duration
	for _, p := range s.pending {
		first = reconciler.Soonest(first, p.wait)
	}
	return first
}

// isStale reports whether the error is a write of an object that changed after the cache read the object.
func isStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// determineDecisions decides on every add-on: first on each alone, then by the removal budget on the remaining ones.
func (r *Reconciler) determineDecisions(s *scope) error {
	for _, p := range s.pending {
		in, err := r.gatherInput(s, p)
		if err != nil {
			return err
		}
		if s.confirming && p.isOverBudget() {
			in.confirmation = "" // the copy that the add-on already has counts with the last copy
		}
		p.decision = determineDecision(in)
	}
	includeBatch(s.pending)
	return r.applyBudget(s)
}

// applyBudget decides on the add-ons whose removals are counted.
func (r *Reconciler) applyBudget(s *scope) error {
	removed, _ := s.recentRemovals()
	b := budget{removed: removed, maxRemoval: r.MaxRemoval, now: s.now, confirming: s.confirming}
	byID := map[string]*pendingRemoval{}
	for _, p := range s.pending {
		switch {
		case p.decision.action == actionCount:
			id := removalID(p.UID)
			byID[id] = p
			b.candidates = append(b.candidates, candidate{id: id, deleted: p.DeletionTimestamp.Time, overBudget: p.isOverBudget()})
		case s.maySettle(p):
			b.settling++
		}
	}
	if len(b.candidates) == 0 {
		return nil
	}
	fleet, err := r.countFleet(s, b.removed)
	if err != nil {
		return err
	}
	b.fleet = fleet
	out := determineBudget(&b)
	for _, id := range out.allowed {
		p := byID[id]
		if _, counted := b.removed[id]; !counted {
			if wait := s.replacementWait(p); wait > 0 {
				p.decision = replacementDecision()
				p.requeueWithin(wait)
				continue
			}
		}
		p.decision = allowedDecision("maxRemoval permits the removal")
		p.decision.counted = true
	}
	for _, id := range out.held {
		byID[id].decision = massRemovalDecision(s.component)
	}
	cause := "more add-ons may follow"
	if s.confirming {
		cause = "the hub has refused to copy the confirmation of the ClusterManagementAddOn to an add-on, which the manager's log names"
	}
	for _, id := range out.waiting {
		byID[id].decision = settlingDecision(cause)
		byID[id].requeueWithin(out.wait)
	}
	return nil
}

// maySettle reports whether the add-on may become a candidate within a moment. An undecided add-on may stay for any time, so that only a young
// one counts: an older one would use the budget until a user decides.
func (s *scope) maySettle(p *pendingRemoval) bool {
	switch p.decision.reason {
	case api.ReasonPlacementSettling:
		return true
	case api.ReasonPlacementUndecided:
		return s.now.Sub(p.DeletionTimestamp.Time) < longestBatch
	default:
		return false
	}
}

// recentRemovals returns the removals that the ClusterManagementAddOn records, as parseRemovals does.
func (s *scope) recentRemovals() (removals removalTimes, isAhead bool) {
	if s.definition == nil {
		return removalTimes{}, false
	}
	return parseRemovals(s.definition.Annotations[api.RemovalsAnnotation], s.now)
}

// countFleet returns the number of clusters that have the add-on, or had it within the window. Without a ClusterManagementAddOn no
// annotation records the removals; then countFleet adds the removals in progress to removed.
func (r *Reconciler) countFleet(s *scope, removed removalTimes) (int, error) {
	all, err := r.AddOns.ByIndex(nameIndex, s.component.AddOnName())
	if err != nil {
		return 0, fmt.Errorf("cannot list the add-ons: %w", err)
	}
	fleet := len(all)
	there := map[string]bool{}
	for _, o := range all {
		a, err := asAddOn(o)
		if err != nil {
			return 0, err
		}
		there[removalID(a.UID)] = true
		if s.definition == nil && a.DeletionTimestamp != nil && a.Annotations[api.RemovalAllowedAnnotation] != "" {
			removed[removalID(a.UID)] = s.now
		}
	}
	for id := range removed {
		if !there[id] {
			fleet++
		}
	}
	return fleet, nil
}
