// Copyright Contributors to the Open Cluster Management project

package access

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// jitterPart is how much a pause is shortened or lengthened at most: a fifth.
const jitterPart = 5

// breaker keeps requests from a cluster that fails. After a pause one request is let through; how it ends decides for all.
type breaker struct {
	opts   BreakerOptions
	clock  clock.PassiveClock
	jitter func() float64

	mu sync.Mutex
	// generation counts openings and closings: what began before one says nothing after it.
	generation int
	// failures in a row while closed.
	failures int
	// pauses in a row.
	pauses int
	// until is when the next request may try; zero while closed.
	until time.Time
	// trying tells that it does.
	trying bool
	last   *fault
}

// ticket is for one request.
type ticket struct {
	generation int
	trial      bool
}

// admit lets a request through, or says why not: what went wrong last.
func (b *breaker) admit() (ticket, *fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return ticket{generation: b.generation}, nil
	}
	if b.trying || b.clock.Now().Before(b.until) {
		return ticket{}, b.last.again()
	}
	b.trying = true
	return ticket{generation: b.generation, trial: true}, nil
}

// blocked is why no request would be let through now, nil when one would.
func (b *breaker) blocked() *fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() || (!b.trying && !b.clock.Now().Before(b.until)) {
		return nil
	}
	return b.last.again()
}

// succeed tells that the cluster answered.
func (b *breaker) succeed(t ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.generation != b.generation {
		return
	}
	b.failures = 0
	if t.trial {
		b.generation++
		b.pauses, b.until, b.trying, b.last = 0, time.Time{}, false, nil
	}
}

// fail tells that it did not, or refused the credential.
func (b *breaker) fail(t ticket, f *fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.generation != b.generation {
		return
	}
	b.failures++
	if !t.trial && !f.decided && b.failures < b.opts.Threshold {
		return
	}
	pause := b.opts.Max
	if b.pauses < 30 { // Beyond, the shift would overflow long after Max.
		pause = min(b.opts.Base<<b.pauses, b.opts.Max)
	}
	pause += time.Duration((2*b.jitter() - 1) * float64(pause/jitterPart))
	b.generation++
	b.pauses++
	b.failures, b.trying, b.last = 0, false, f
	b.until = b.clock.Now().Add(pause)
}

// pass tells that the request says nothing about the cluster.
func (b *breaker) pass(t ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.trial && t.generation == b.generation {
		b.trying = false
	}
}

// retryAt is when the next request may try; zero when any may.
func (b *breaker) retryAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}
