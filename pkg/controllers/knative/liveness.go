// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// liveness caches the result of the latest probe of a cluster. Callers never block on a probe: a cluster that does not answer
// takes its time, and the number of such clusters may exceed the number of workers.
type liveness struct {
	mu      sync.Mutex
	probing bool
	// waiting are the resources that have not got the result of a probe. Each resource gets the result once, however late.
	waiting map[resourceID]bool
	// failure is the error of the latest probe.
	failure error
	// answeredAt is the time of the latest answer.
	answeredAt time.Time
}

// checkAnsweredSince returns no failure when the cluster answered after the deadline. Otherwise the method starts a probe in the
// background and reports that the result is pending; at the end of the probe, enqueue is called for each resource that waits, and the
// next call for such a resource returns the result.
func (l *liveness) checkAnsweredSince(deadline time.Time, id resourceID, probe func() error, enqueue func(resourceID)) (pending bool, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.probing && l.waiting[id]:
		delete(l.waiting, id)
		return false, l.failure
	case !l.probing && l.failure == nil && l.answeredAt.After(deadline):
		return false, nil
	case !l.probing:
		l.probing = true
		go func() {
			for _, waiting := range l.finishProbe(probe()) {
				enqueue(waiting)
			}
		}()
	}
	if l.waiting == nil {
		l.waiting = map[resourceID]bool{}
	}
	l.waiting[id] = true
	return true, nil
}

// finishProbe records the result of a probe and returns the resources that wait for the result.
func (l *liveness) finishProbe(failure error) (waiting []resourceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probing, l.failure = false, failure
	return slices.Collect(maps.Keys(l.waiting))
}

// forgetResource drops a resource that no longer waits for the result of a probe.
func (l *liveness) forgetResource(id resourceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
}

// recordAnswer records the time of an answer.
func (l *liveness) recordAnswer(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answeredAt = at
}

// nextProbeAfter returns the time until the next probe of a cluster that is probed at the interval; at least one second.
func (l *liveness) nextProbeAfter(now time.Time, interval time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(time.Second, l.answeredAt.Add(interval).Sub(now))
}

// hasAnsweredAfter reports whether the cluster answered after the deadline.
func (l *liveness) hasAnsweredAfter(deadline time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answeredAt.After(deadline)
}
