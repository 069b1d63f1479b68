// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

const (
	// statusInterval is the shortest time between two writes of the status of a KnativeFleet.
	statusInterval = 5 * time.Second
	// maxWrites is the number of children that one pass writes: a pass must not occupy a worker for long.
	maxWrites = 100
	// moreWrites is the time until the next pass after a pass that has written maxWrites children, or whose refused children left places to
	// other clusters.
	moreWrites = 100 * time.Millisecond
)

// Fleets reads KnativeFleets. A hub.KnativeFleets implements it.
type Fleets interface {
	// Get returns a KnativeFleet, or nil without an error when there is none.
	Get(name types.NamespacedName) (*unstructured.Unstructured, error)
}

// Profiles reads ClusterProfiles. A hub.ClusterProfiles implements it.
type Profiles interface {
	// List returns the ClusterProfiles of a namespace. The error is an apimeta.NoKindMatchError while the hub does not serve the kind.
	List(namespace string) ([]*clusterinventoryv1alpha1.ClusterProfile, error)
}

// KeyDecisions reads the PlacementDecisions of SIG Multicluster. A hub.InventoryDecisions implements it.
type KeyDecisions interface {
	// List returns the PlacementDecisions of a namespace with a decision key. The error is an apimeta.NoKindMatchError while the hub
	// does not serve the kind.
	List(namespace, decisionKey string) ([]*clusterinventoryv1alpha1.PlacementDecision, error)
}

// Reconciler reconciles KnativeFleets.
type Reconciler struct {
	Fleets   Fleets
	Profiles Profiles
	// Placements and Decisions are OCM's, KeyDecisions those of SIG Multicluster.
	Placements   clusterlistersv1beta1.PlacementLister
	Decisions    clusterlistersv1beta1.PlacementDecisionLister
	KeyDecisions KeyDecisions
	Clusters     clusterlisters.ManagedClusterLister
	Configs      map[api.Component]cache.GenericLister
	Client       dynamic.Interface
	// RemovalLimit returns how many of a number of children maxRemoval permits to remove. removalguard.Limit implements it.
	RemovalLimit func(maxRemoval intstr.IntOrString, children int) int
	// MaySelect reports whether OCM may select a cluster for a Placement with a number of clusters in its decisions. removalguard.MaySelect
	// implements it.
	MaySelect func(placement *clusterv1beta1.Placement, clusters int, cluster *clusterv1.ManagedCluster) bool
	// History keeps the templates; nil keeps no templates.
	History History
	// Completions reads which specs of children their clusters have run.
	Completions map[api.Component]Completions
	Events      events.EventRecorder
	Clock       clock.PassiveClock

	memory memory
}

// memory holds times that a restarted manager may lose: without the times, the manager only waits longer.
type memory struct {
	sync.Mutex
	fleets map[types.NamespacedName]*fleetTimes
}

// fleetTimes holds the times of one KnativeFleet. One pass at a time reads and writes the times.
type fleetTimes struct {
	uid types.UID
	// begun is the time of the first pass of this process.
	begun time.Time
	// written is the time of the last write of the status.
	written time.Time
	// deselected holds the facts about children whose clusters were found deselected, by component and name of the child; nil before the first
	// decision on removals.
	deselected map[string]deselection
	// counted holds the time at which the status counted the removal of a deselected child, by UID: an attempt that failed does not count again.
	counted map[types.UID]time.Time
	// refusals holds the writes of children that the API server has refused.
	refusals refusals
	// recorded and completed are the revisions that the history has, and has as run by a cluster. refusal is the text of the last refusal
	// of a rollback.
	recorded, completed, refusal string
}

// deselection holds what the manager remembers about a deselected cluster.
type deselection struct {
	// since is the time at which the manager first found the cluster deselected.
	since time.Time
	// returned reports whether the cluster was unhealthy at any time since, or may have been before this process began.
	returned bool
}

// ensureTimes returns the times of a KnativeFleet. Another KnativeFleet of the same name begins without times.
func (m *memory) ensureTimes(name types.NamespacedName, uid types.UID, now time.Time) *fleetTimes {
	m.Lock()
	defer m.Unlock()
	if m.fleets == nil {
		m.fleets = map[types.NamespacedName]*fleetTimes{}
	}
	if known := m.fleets[name]; known == nil || known.uid != uid {
		m.fleets[name] = &fleetTimes{uid: uid, begun: now, counted: map[types.UID]time.Time{}, refusals: refusals{}}
	}
	return m.fleets[name]
}

func (m *memory) forget(name types.NamespacedName) {
	m.Lock()
	defer m.Unlock()
	delete(m.fleets, name)
}

// pass holds the objects and the findings of one Reconcile of a KnativeFleet.
type pass struct {
	*Reconciler
	read  *unstructured.Unstructured
	fleet *fleetv1alpha1.KnativeFleet
	times *fleetTimes
	now   time.Time
	// children holds the resources of the namespace, by component and name.
	children map[api.Component]map[string]*unstructured.Unstructured
	// selection holds the objects that decide on the selection; nil before the pass has read the objects.
	selection *selectionInput
	// reader reads the states of the selected clusters; nil while a problem keeps the pass from the selection.
	reader   *stateReader
	profiles []*clusterinventoryv1alpha1.ClusterProfile
	report   report
	// decided reports whether the pass has decided on removals.
	decided bool
	// requeue is the time until the next pass; 0 means that the next event starts the next pass.
	requeue time.Duration
}

// Reconcile brings the children of one KnativeFleet one step closer to the templates and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	read, err := r.Fleets.Get(req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if read == nil {
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	fleet, no, err := decodeFleet(read)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	p := &pass{
		Reconciler: r, read: read, fleet: fleet, times: r.memory.ensureTimes(req.NamespacedName, fleet.UID, now), now: now,
		report: report{generation: fleet.Generation, problem: no},
	}
	return p.reconcile(ctx)
}

func (p *pass) reconcile(ctx context.Context) (reconcile.Result, error) {
	if done, err := p.ensureFinalizer(ctx); err != nil || !done {
		return reconcile.Result{}, err
	}
	if p.fleet.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // Kubernetes deletes the children
	}
	if changed, err := p.rollBack(ctx); err != nil || changed {
		return reconcile.Result{}, err // the event of the change starts the next pass
	}
	templates, err := p.observe()
	if err != nil {
		return reconcile.Result{}, err
	}
	var historyErr error
	if p.report.problem == nil {
		historyErr = p.keepHistory(ctx, templates)
	}
	if isRefusal(historyErr) { // the pauses of a failing pass would delay the clusters
		log.FromContext(ctx).Error(historyErr, "the hub refuses the history of the templates; the rollout continues without a rollback to these templates")
		p.requeueWithin(refusedRetry)
		historyErr = nil
	}
	var remove []removalCandidate
	done, writeErr := p.applyPause(ctx)
	switch {
	case writeErr != nil, p.report.problem != nil:
	case p.report.paused:
		p.holdRemovals(templates)
	case done:
		reconciler.Describe(ctx, reconciler.Subject{Revision: templates.revision})
		remove, p.decided = p.decideRemovals(templates), true
		writeErr = p.writeChildren(ctx, templates)
	}
	p.reportRefusals()
	written, err := p.writeStatus(ctx, remove)
	if err == nil && written {
		err = p.removeChildren(ctx, remove)
	}
	return reconcile.Result{RequeueAfter: p.requeue}, errors.Join(historyErr, writeErr, err)
}

// requeueWithin makes the next pass begin at the latest after wait; 0 changes nothing.
func (p *pass) requeueWithin(wait time.Duration) {
	if wait > 0 && (p.requeue == 0 || wait < p.requeue) {
		p.requeue = wait
	}
}

// writeChildren writes the children of the clusters that get the revision now, and restores children that were changed. A refused child, as by a
// quota, does not keep other clusters from their children.
func (p *pass) writeChildren(ctx context.Context, t *templates) error {
	writes, refused := 0, false
	for i := range p.report.clusters {
		c := &p.report.clusters[i]
		if c.phase == phaseSkipped && !c.updated {
			continue
		}
		for _, component := range t.components() {
			w, needed := p.dueWrite(c, component)
			if !needed {
				continue
			}
			if writes++; writes > maxWrites {
				p.requeueWithin(moreWrites)
				return nil
			}
			isRefused, err := p.tryWriteChild(ctx, t, w, c)
			if err != nil {
				return err
			}
			refused = refused || isRefused
		}
	}
	waits := func(c clusterState) bool { return c.phase == phaseWaiting && !p.report.plan.update.Has(c.name) }
	if refused && slices.ContainsFunc(p.report.clusters, waits) {
		p.requeueWithin(moreWrites)
	}
	return nil
}

// tryWriteChild writes a child, and reports whether the API server refuses the child. A refused child leaves its place to another cluster.
func (p *pass) tryWriteChild(ctx context.Context, t *templates, w childWrite, c *clusterState) (isRefused bool, err error) {
	err = p.writeChild(ctx, t, w.component, c.name, c.children[w.component])
	if isRefused = p.times.refusals.record(w, err, p.now); !isRefused {
		return false, err
	}
	if !c.updated {
		*c = p.reader.readCluster(c.cluster)
	}
	return true, nil
}

// dueWrite returns the write that a child needs now: the child gets the revision now, or differs from the template of its revision. The result is
// false without such a write, and while the write has to wait because of refusals.
func (p *pass) dueWrite(c *clusterState, component api.Component) (w childWrite, due bool) {
	child := c.children[component]
	w, needed := p.reader.neededWrite(component, c.name, child)
	hasTurn := child != nil && p.reader.hasRevision(child) || p.report.plan.update.Has(c.name)
	return w, needed && hasTurn && p.times.refusals.permits(w, p.now)
}
