// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// ErrLooking says that it is not known yet whether a cluster is there. A resource that hears it is reconciled again when
// it is.
var ErrLooking = errors.New("the cluster is being looked at")

// glance is the last look at a cluster. No worker waits for it: a cluster that does not answer takes its time, and there
// may be more of them than workers.
type glance struct {
	mu      sync.Mutex
	looking bool
	// waiting are those who want to know what comes of it, each once: for them it is news even if they come late.
	waiting map[user]bool
	// failure is why the cluster was not seen.
	failure error
	// at is when it was.
	at time.Time
}

// seen is nil when the cluster has answered since then, and otherwise has somebody look. The error is ErrLooking meanwhile,
// and what came of it then. again is called for those who have heard the former.
func (g *glance) seen(since time.Time, u user, look func() error, again func(user)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.looking && g.waiting[u]:
		delete(g.waiting, u)
		return g.failure
	case !g.looking && g.failure == nil && g.at.After(since):
		return nil
	case !g.looking:
		g.looking = true
		go func() {
			for _, waiting := range g.end(look()) {
				again(waiting)
			}
		}()
	}
	if g.waiting == nil {
		g.waiting = map[user]bool{}
	}
	g.waiting[u] = true
	return ErrLooking
}

func (g *glance) end(failure error) (waiting []user) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looking, g.failure = false, failure
	return slices.Collect(maps.Keys(g.waiting))
}

// answered notes when the cluster has.
func (g *glance) answered(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = at
}

// due is after how long a cluster has to be asked again that is asked that often.
func (g *glance) due(now time.Time, every time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(time.Second, g.at.Add(every).Sub(now))
}

// answeredAfter tells whether the cluster has answered since then.
func (g *glance) answeredAfter(since time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at.After(since)
}
