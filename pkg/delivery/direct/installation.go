// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Installation is one component on one cluster. What it remembers saves requests; it may be forgotten at any time.
type Installation struct {
	cluster *Cluster
	owner   Owner
	clock   clock.PassiveClock

	mu sync.Mutex // one pass at a time
	// anchor is as it was last read or written; nil when it has to be read.
	anchor *anchor
	// written are the resource versions of what was applied: what is seen before that is old.
	written map[render.ObjectID]string
	// restored is how often the cluster was restored from a backup when these were noted.
	restored int32
	// failing are the objects that could not be applied, and undeleted those that could not be deleted.
	failing, undeleted map[render.ObjectID]*failing
	// repairs are the objects that somebody else has changed lately.
	repairs repairs
}

// failing is an object that could not be applied or deleted, and when that is tried again.
type failing struct {
	delivery.Failure
	digest string
	pause  time.Duration
	next   time.Time
}

// Installation is the installation of the owner on the cluster.
func (c *Cluster) Installation(owner Owner, clock clock.PassiveClock) *Installation {
	return &Installation{
		cluster: c, owner: owner, clock: clock, written: map[render.ObjectID]string{}, repairs: newRepairs(clock),
		failing: map[render.ObjectID]*failing{}, undeleted: map[render.ObjectID]*failing{},
	}
}

// SyncOptions are what a pass may do.
type SyncOptions struct {
	// Adopt takes over a Knative that is there and not ours.
	Adopt bool
	// Paused keeps everything on the cluster as it is: the pass only looks.
	Paused bool
}

// Outcome is what a pass has found and done.
type Outcome struct {
	// Observation is what was seen of the bundle.
	Observation delivery.Observation
	// Repaired says what somebody else had changed or deleted, sorted. Loop tells that something of it is changed again and
	// again, so that its repairs slow down.
	Repaired []string
	Loop     bool
	// Pending tells that a pass had something to do and did not, because of a pause.
	Pending bool
	// Retry is after how long there is something to do, unless something changes before; 0 when there is nothing.
	Retry time.Duration
}

// Version is the exact version that the cluster has, or is on its way to; empty when it has none of this owner. Its errors are
// as those of Sync.
func (i *Installation) Version(ctx context.Context, namespace string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, err := i.current(ctx, namespace)
	if foreign := (*ForeignError)(nil); errors.As(err, &foreign) {
		return "", nil
	}
	if left := leftBy(err); left != nil { // whether it is taken over is decided later
		return left.version(), nil
	}
	if err != nil || a == nil {
		return "", blockedBy(err)
	}
	return a.version(), nil
}

// Sync brings the cluster to the bundle and tells what was seen of it there. Where nothing has changed it makes no request.
// Its errors are a *RivalError or *ForeignError, after which nothing was written, a *BlockedError, or tell that the cluster
// could not be used; what else it refuses is in the Outcome.
func (i *Installation) Sync(ctx context.Context, b *render.Bundle, options SyncOptions) (out Outcome, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if options.Paused {
		out, err = i.inspect(ctx, b, options)
	} else {
		out, err = i.sync(ctx, b, options)
	}
	return out, blockedBy(err)
}

func (i *Installation) sync(ctx context.Context, b *render.Bundle, options SyncOptions) (Outcome, error) {
	a, err := i.claim(ctx, b, options)
	if err != nil {
		return Outcome{}, err
	}
	seen, err := i.look(ctx, a.inventory)
	if err != nil {
		return Outcome{}, err
	}
	p := i.plan(b, a, seen)
	if p.inventory.finish(seen) || !p.empty() || a.version() != b.Version || !i.sameHub(a.ConfigMap) {
		if a, err = i.carryOut(ctx, b, a, p); err != nil {
			i.anchor = nil // it may be half written
			return Outcome{}, err
		}
		if seen, err = i.look(ctx, a.inventory); err != nil {
			return Outcome{}, err
		}
	}
	i.anchor = a
	out := Outcome{Observation: i.observe(b, a, seen), Retry: i.retry(p)}
	out.Repaired, out.Loop = i.repaired(p)
	return out, nil
}

// claim is the anchor of the installation, made if there is none and the cluster is free.
func (i *Installation) claim(ctx context.Context, b *render.Bundle, options SyncOptions) (*anchor, error) {
	a, err := i.current(ctx, b.Namespace)
	if foreign := (*ForeignError)(nil); errors.As(err, &foreign) && options.Adopt {
		if _, err := i.applyNamespace(ctx, b); err != nil { // it was there before, and says so then
			return nil, err
		}
		a, err = i.adoptAnchor(ctx, b.Namespace)
	}
	if left := leftBy(err); left != nil && options.Adopt {
		a, err = left, nil
	}
	if err != nil {
		return nil, err
	}
	if a != nil {
		return a, i.confirm(ctx, a)
	}
	i.cluster.claiming.Lock()
	defer i.cluster.claiming.Unlock()
	err = i.checkFree(ctx, b)
	if err != nil && !(adoptable(err) && options.Adopt) {
		return nil, err
	}
	existed, err := i.applyNamespace(ctx, b)
	if err != nil {
		return nil, err
	}
	a = &anchor{ConfigMap: &corev1.ConfigMap{}}
	if existed {
		a.Annotations = map[string]string{keepNamespaceAnnotation: "true"}
	}
	if a, err = i.writeAnchor(ctx, b, a, inventory{}); err != nil {
		return nil, err
	}
	return a, i.confirm(ctx, a)
}

// current is the anchor as it is: remembered, unless it has changed on the cluster since.
func (i *Installation) current(ctx context.Context, namespace string) (*anchor, error) {
	if n := i.cluster.outlook.restored.Load(); n != i.restored { // what was noted are versions that may never come again
		i.restored, i.anchor = n, nil
		clear(i.written)
	}
	if a := i.anchor; a != nil && a.Namespace == namespace {
		v, err := i.cluster.see(ctx, place{configMaps(), namespace})
		if err != nil {
			return nil, err
		}
		if v != nil && v.shows(a) {
			return a, nil
		}
	}
	i.anchor = nil
	return i.readAnchor(ctx, namespace)
}

// retry is after how long the first of what has failed is tried again, or the first of what has drifted repaired. What was
// due and not tried waits for something else that has failed, or for an event.
func (i *Installation) retry(p *plan) time.Duration {
	var waits []time.Duration
	for _, refused := range []map[render.ObjectID]*failing{i.failing, i.undeleted} {
		for _, f := range refused {
			if !f.next.After(p.at) {
				continue
			}
			waits = append(waits, max(f.next.Sub(i.clock.Now()), time.Millisecond))
		}
	}
	for _, id := range p.postponed {
		waits = append(waits, max(i.repairs.wait(id), time.Millisecond))
	}
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}
