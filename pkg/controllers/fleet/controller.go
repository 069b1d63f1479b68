// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

const (
	// statusInterval is the shortest time between two writes of the status of a KnativeFleet.
	statusInterval = 5 * time.Second
	// refusedRetry is the time until the next attempt after the API server refused a child, unless an event comes first.
	refusedRetry = time.Minute
	// maxWrites is the number of children that one pass writes: a pass must not occupy a worker for long.
	maxWrites = 100
	// maxRefused is the number of refused creations, and of refused updates, after which a pass tries no further one: one cause may refuse all.
	maxRefused = 20
	// moreWrites is the time until the next pass after a pass that has written maxWrites children.
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
	Configs      map[api.Component]cache.GenericLister
	Client       dynamic.Interface
	// RemovalLimit returns how many of a number of children maxRemoval permits to remove. removalguard.Limit implements it.
	RemovalLimit func(maxRemoval intstr.IntOrString, children int) int
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
	// written is the time of the last write of the status.
	written time.Time
	// deselected holds the time at which the child's cluster was first found deselected, by component and name of the child.
	deselected map[string]time.Time
	// counted holds the time at which the status counted the removal of a deselected child, by UID: an attempt that failed does not count again.
	counted map[types.UID]time.Time
	// recorded and completed are the revisions that the history has, and has as run by a cluster. refusal is the text of the last refusal
	// of a rollback.
	recorded, completed, refusal string
}

// ensureTimes returns the times of a KnativeFleet. Another KnativeFleet of the same name begins without times.
func (m *memory) ensureTimes(name types.NamespacedName, uid types.UID) *fleetTimes {
	m.Lock()
	defer m.Unlock()
	if m.fleets == nil {
		m.fleets = map[types.NamespacedName]*fleetTimes{}
	}
	if known := m.fleets[name]; known == nil || known.uid != uid {
		m.fleets[name] = &fleetTimes{uid: uid, deselected: map[string]time.Time{}, counted: map[types.UID]time.Time{}}
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
	p := &pass{
		Reconciler: r, read: read, fleet: fleet, times: r.memory.ensureTimes(req.NamespacedName, fleet.UID), now: r.Clock.Now(),
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
	writes, refused := 0, map[bool]int{} // by whether the write is a creation
	for i := range p.report.clusters {
		c := &p.report.clusters[i]
		if c.phase == phaseSkipped && !c.updated {
			continue
		}
		for _, component := range t.components() {
			isCreation := c.children[component] == nil
			if !p.needsWrite(c, t, component) || refused[isCreation] >= maxRefused {
				continue
			}
			if writes++; writes > maxWrites {
				p.requeueWithin(moreWrites)
				return nil
			}
			isRefused, err := p.tryWriteChild(ctx, t, component, c)
			if err != nil {
				return err
			}
			if isRefused {
				refused[isCreation]++
			}
		}
	}
	return nil
}

// tryWriteChild writes a child, and reports whether the API server refuses the child. The status has the first refusal.
func (p *pass) tryWriteChild(ctx context.Context, t *templates, component api.Component, c *clusterState) (isRefused bool, err error) {
	err = p.writeChild(ctx, t, component, c.name, c.children[component])
	if !isRefusal(err) {
		return false, err
	}
	if p.report.refused == "" {
		p.report.refused = err.Error()
	}
	p.requeueWithin(refusedRetry)
	return true, nil
}

// needsWrite reports whether a child gets the revision now, or differs from the template of its revision.
func (p *pass) needsWrite(c *clusterState, t *templates, component api.Component) bool {
	child := c.children[component]
	reader := stateReader{fleet: p.fleet, templates: t}
	switch {
	case child == nil || child.GetDeletionTimestamp() == nil && !reader.hasRevision(child):
		return p.report.plan.update.Has(c.name)
	case child.GetDeletionTimestamp() != nil:
		return false
	}
	return !isUnchanged(child, p.fleet, t, component)
}

// isRefusal reports whether the API server refuses the content of an object, so that only another content or another permission helps.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}
