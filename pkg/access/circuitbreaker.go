// Copyright Contributors to the Open Cluster Management project

package access

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// jitterPart limits the jitter of a pause: at most a fifth of the pause.
const jitterPart = 5

// circuitBreaker keeps requests from a cluster that fails. After a pause the breaker admits one trial request; the outcome
// of the trial decides for all requests.
type circuitBreaker struct {
	opts   BreakerOptions
	clock  clock.PassiveClock
	jitter func() float64

	mu sync.Mutex
	// generation counts openings and closings: the outcome of a request of an older generation does not count.
	generation int
	// failures in a row while closed.
	failures int
	// counted is the number of failures that have counted since the beginning.
	counted int
	// pauses in a row.
	pauses int
	// pausedUntil is the end of the pause; zero while the breaker is closed.
	pausedUntil time.Time
	// trialRunning reports whether the trial request is under way.
	trialRunning bool
	lastFault    *fault

	// offences counts refused answers in a row; offencePauseEnd is the end of the pause after the last refused answer.
	offences        int
	offencePauseEnd time.Time
}

// admission admits one request.
type admission struct {
	generation int
	isTrial    bool
	// counted is the number of counted failures before the request.
	counted int
}

// admitRequest admits a request, or returns the fault that opened the breaker.
func (b *circuitBreaker) admitRequest() (admission, *fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pausedUntil.IsZero() {
		return admission{generation: b.generation, counted: b.counted}, nil
	}
	if b.trialRunning || b.clock.Now().Before(b.pausedUntil) {
		return admission{}, b.lastFault.asNotAsked()
	}
	b.trialRunning = true
	return admission{generation: b.generation, isTrial: true}, nil
}

// blockingFault returns the fault that would turn every request away now, and nil when a request would be admitted.
func (b *circuitBreaker) blockingFault() *fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pausedUntil.IsZero() || (!b.trialRunning && !b.clock.Now().Before(b.pausedUntil)) {
		return nil
	}
	return b.lastFault.asNotAsked()
}

// recordSuccess records that the cluster answered.
func (b *circuitBreaker) recordSuccess(t admission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.generation != b.generation {
		return
	}
	b.failures = 0
	if t.isTrial {
		b.generation++
		b.pauses, b.pausedUntil, b.trialRunning, b.lastFault = 0, time.Time{}, false, nil
	}
}

// recordFailure records that the cluster did not answer, or refused the credential. A lost connection ends all its requests: only the failure of a
// request that began after the last counted failure counts as one more in a row.
func (b *circuitBreaker) recordFailure(t admission, f *fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.generation != b.generation {
		return
	}
	if t.counted == b.counted {
		b.counted++
		b.failures++
	}
	if !t.isTrial && !f.isPersistent && b.failures < b.opts.Threshold {
		return
	}
	b.pauseRequests(b.nextPause(b.pauses, b.opts.Max), f)
	b.pauses++
}

// recordOffence leaves a cluster alone that answers in a way that is not taken. A cluster that answers heartbeats well may do so
// for ever, so that the pauses grow whatever else the cluster answers, and start over only after as long a time without an
// offence as the longest pause.
func (b *circuitBreaker) recordOffence(f *fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if b.offences > 0 && now.Before(b.offencePauseEnd) {
		return // the request was under way when the pause began
	}
	if now.Sub(b.offencePauseEnd) > b.opts.MaxOffence {
		b.offences = 0
	}
	b.pauseRequests(b.nextPause(b.offences, b.opts.MaxOffence), f)
	b.offences++
	b.offencePauseEnd = b.pausedUntil
}

// nextPause returns the pause after a number of pauses in a row, with jitter.
func (b *circuitBreaker) nextPause(before int, longest time.Duration) time.Duration {
	pause := longest
	if before < 30 { // Beyond, the shift would overflow long after the longest.
		pause = min(b.opts.Base<<before, longest)
	}
	return pause + time.Duration((2*b.jitter()-1)*float64(pause/jitterPart))
}

// pauseRequests turns every request away for a pause. The caller holds the lock.
func (b *circuitBreaker) pauseRequests(pause time.Duration, f *fault) {
	b.generation++
	b.failures, b.trialRunning, b.lastFault = 0, false, f
	b.pausedUntil = b.clock.Now().Add(pause)
}

// releaseTrial allows another trial after a request whose outcome says nothing about the cluster.
func (b *circuitBreaker) releaseTrial(t admission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.isTrial && t.generation == b.generation {
		b.trialRunning = false
	}
}

// States of a circuit breaker.
const (
	// breakerClosed admits every request.
	breakerClosed = "Closed"
	// breakerOpen turns every request away until the end of a pause.
	breakerOpen = "Open"
	// breakerHalfOpen admits one trial request, or waits for the outcome of the trial.
	breakerHalfOpen = "HalfOpen"
)

// currentState returns the state of the circuit breaker.
func (b *circuitBreaker) currentState() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pausedUntil.IsZero():
		return breakerClosed
	case b.trialRunning || !b.clock.Now().Before(b.pausedUntil):
		return breakerHalfOpen
	default:
		return breakerOpen
	}
}

// retryAt returns the time from which a request may try; zero when any request may.
func (b *circuitBreaker) retryAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pausedUntil
}
