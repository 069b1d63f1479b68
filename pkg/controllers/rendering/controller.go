// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// Reconciler gives the turn to the clusters of a component. A request names a ClusterManagementAddOn.
type Reconciler struct {
	AddOns      addonlisters.ManagedClusterAddOnLister
	Definitions addonlisters.ClusterManagementAddOnLister
	Clusters    clusterlisters.ManagedClusterLister
	Placements  clusterlistersv1beta1.PlacementLister
	Decisions   clusterlistersv1beta1.PlacementDecisionLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	Configs     map[api.Component]cache.GenericLister
	Bundles     addon.Bundles
	Targets     addon.Targets
	Pauses      addon.Pauses
	// Direct has the reports on the clusters without a work agent.
	Direct map[api.Component]Reports
	// Selection returns the selection of a KnativeFleet. A fleet.Reconciler implements the interface.
	Selection func(types.NamespacedName) (*rollout.Selection, error)
	// Default is the strategy of clusters that no Placement of a ClusterManagementAddOn and no KnativeFleet selects.
	Default      clusterv1alpha1.RolloutStrategy
	WorkClient   workclient.Interface
	ConfigClient dynamic.Interface
	Events       events.EventRecorder
	Clock        clock.PassiveClock

	// stops has the keys of the stopped rollouts by component, so that one Event reports a stop. A restarted manager reports the stop again.
	stops sync.Map
	// begins has the times at which rollouts began by beginKey. One pass at a time is over the rollouts of a component.
	begins sync.Map
}

// Reports holds the reports of this process on the renderings of clusters without a work agent.
type Reports interface {
	// Report returns the last report on a resource; ok is false before the first pass that did not fail.
	Report(name types.NamespacedName) (report rollout.Report, ok bool)
}

const (
	// waitingRetry is the time until the next pass while a cluster waits for its turn: Placements, KnativeFleets and annotations may
	// change without an event of an add-on.
	waitingRetry = 5 * time.Second
	// skippedRetry is the time until the next pass while only clusters that take no part in the rollout wait, such as absent and paused
	// clusters. The return of a cluster and the end of a pause are events.
	skippedRetry = time.Minute
	// pendingRetry is the time until the next pass while a bundle is being rendered.
	pendingRetry = time.Second
)

// Reconcile gives the turn to the clusters whose turn has come.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	component := api.Component(req.Name)
	addOns, waiting, err := r.listAddOns(component)
	if err != nil {
		return reconcile.Result{}, err
	}
	configs, directWaiting, err := r.listDirect(ctx, component)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !waiting && !directWaiting {
		r.reportStops(component, nil, nil)
		r.forgetBegins(component)
		return reconcile.Result{}, nil
	}
	rollouts, err := r.gatherRollouts(ctx, component, addOns, configs)
	if err != nil {
		return reconcile.Result{}, err
	}
	next := skippedRetry
	plans := map[string]rollout.Plan{}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(rollouts)) {
		plan, err := r.continueRollout(ctx, rollouts[key])
		errs = append(errs, err)
		plans[key] = plan
		next = min(next, determineRetry(rollouts[key].members, plan))
	}
	r.reportStops(component, rollouts, plans)
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// determineRetry returns the time until the next pass over the members of a rollout. A cluster that makes progress reports each change by an
// event, and without a cluster that may get the turn nothing else has to be decided.
func determineRetry(members []*member, plan rollout.Plan) time.Duration {
	next := skippedRetry
	if plan.Recheck > 0 {
		next = min(next, plan.Recheck)
	}
	for _, m := range members {
		switch {
		case m.pending:
			next = min(next, pendingRetry)
		case m.Phase == rollout.Waiting:
			next = min(next, waitingRetry)
		}
	}
	return next
}

// noteBegin notes when the rollout began, as long as a cluster of the component waits, and skips failures of an earlier time. A manager that
// starts takes the time from the clusters that wait.
func (r *Reconciler) noteBegin(o *clusterRollout) {
	key := beginKey{o.component, o.key}
	last, _ := r.begins.Load(key)
	begun, _ := last.(time.Time)
	r.begins.Store(key, skipEarlierFailures(o.members, begun))
}

// forgetBegins forgets the rollouts of a component without a waiting cluster.
func (r *Reconciler) forgetBegins(component api.Component) {
	r.begins.Range(func(key, _ any) bool {
		if of, _ := key.(beginKey); of.component == component {
			r.begins.Delete(key)
		}
		return true
	})
}

// beginKey names a rollout of a component.
type beginKey struct {
	component api.Component
	rollout   string
}

// continueRollout gives the turn to the next clusters of one rollout, and returns the plan. A cluster whose turn cannot be recorded does
// not keep the turn from other clusters.
func (r *Reconciler) continueRollout(ctx context.Context, o *clusterRollout) (rollout.Plan, error) {
	r.noteBegin(o)
	clusters := make([]rollout.Cluster, 0, len(o.members))
	for _, m := range o.members {
		clusters = append(clusters, m.Cluster)
	}
	plan, err := rollout.Determine(o.strategy, clusters)
	if err != nil {
		log.FromContext(ctx).Error(err, "no cluster gets a new rendering by this rollout strategy", "rollout", o.key)
		plan.Update = nil
	}
	var errs []error
	for _, m := range o.members {
		if m.Phase == rollout.Waiting && (m.immediate || plan.Update.Has(m.Name)) {
			errs = append(errs, r.giveTurn(ctx, m))
		}
	}
	return plan, errors.Join(errs...)
}
