// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// liveness caches the result of the latest probe of a cluster. Callers never block on a probe: a cluster that does not answer
// takes its time, and the number of such clusters may exceed the number of workers.
type liveness struct {
	// users returns the resources that install on the cluster, and enqueue requests a pass over a resource.
	users   func() []resourceID
	enqueue func(resourceID)

	mu      sync.Mutex
	probing bool
	// waiting are the resources that wait for the end of the running probe. informed are the resources that have to get the result of the latest
	// probe: each resource gets the result once, however late.
	waiting, informed sets.Set[resourceID]
	// failure is the error of the latest probe.
	failure error
	// answeredAt is the time of the latest answer.
	answeredAt time.Time
}

// checkAnsweredSince returns no failure when the cluster answered after the deadline. Otherwise the method starts a probe in the
// background and reports that the result is pending; the end of the probe enqueues each resource that waits, and the next call for such a
// resource returns the result.
func (l *liveness) checkAnsweredSince(deadline time.Time, id resourceID, probe func() error) (pending bool, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.informed.Has(id):
		l.informed.Delete(id)
		return false, l.failure
	case !l.probing && l.failure == nil && l.answeredAt.After(deadline):
		return false, nil
	case !l.probing:
		l.probing = true
		go func() { l.finishProbe(probe()) }()
	}
	l.waiting = l.waiting.Union(sets.New(id))
	return true, nil
}

// probeAgain probes a cluster that has answered before, unless a probe is running, and returns the failure of the probe.
func (l *liveness) probeAgain(probe func() error) (failure error) {
	l.mu.Lock()
	running := l.probing
	l.probing = true
	l.mu.Unlock()
	if running {
		return nil
	}
	failure = probe()
	l.finishProbe(failure)
	return failure
}

// finishProbe records the result of a probe and enqueues the resources that wait for the result. All resources of a cluster that has stopped
// answering get the result.
func (l *liveness) finishProbe(failure error) {
	users := l.users()
	l.mu.Lock()
	informed := l.waiting.Clone()
	if failure != nil && l.failure == nil {
		informed.Insert(users...)
	}
	l.probing, l.failure, l.waiting, l.informed = false, failure, nil, l.informed.Union(informed)
	l.mu.Unlock()
	for id := range informed {
		l.enqueue(id)
	}
}

// forgetResource drops a resource that no longer waits for the result of a probe.
func (l *liveness) forgetResource(id resourceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Delete(id)
	l.informed.Delete(id)
}

// recordAnswer records the time of an answer, which ends an earlier failure.
func (l *liveness) recordAnswer(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answeredAt, l.failure = at, nil
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

// timeoutOfProbe returns the time for the answer to a probe of a cluster whose last connection was lost at a time, which is zero without a loss.
func (l *liveness) timeoutOfProbe(connectionLost time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == nil && connectionLost.After(l.answeredAt) {
		return lossProbeTimeout
	}
	return probeTimeout
}

// probeTimer probes a cluster at intervals. A probe that succeeds causes no pass.
type probeTimer struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// schedule replaces the scheduled probe by a probe after the time that the function after returns. A probe without an error schedules the next
// probe.
func (t *probeTimer) schedule(after func() time.Duration, probe func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(after(), func() {
		if probe() == nil {
			t.schedule(after, probe)
		}
	})
}

// stop ends the probes.
func (t *probeTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
