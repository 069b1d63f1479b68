// Copyright Contributors to the Open Cluster Management project

package access

import (
	"errors"
	"io"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func newBreaker() (*circuitBreaker, *clocktesting.FakePassiveClock) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return &circuitBreaker{
		opts:  BreakerOptions{Threshold: 3, Base: 5 * time.Second, Max: time.Minute},
		clock: now, jitter: func() float64 { return 0.5 },
	}, now
}

// let is a ticket that has to be given.
func let(t *testing.T, b *circuitBreaker) admission {
	t.Helper()
	if f := b.blockingFault(); f != nil {
		t.Fatalf("blocked: %v", f)
	}
	turn, f := b.admitRequest()
	if f != nil {
		t.Fatalf("not admitted: %v", f)
	}
	return turn
}

// refused has to be what went wrong last.
func refused(t *testing.T, b *circuitBreaker, want *fault) {
	t.Helper()
	_, admit := b.admitRequest()
	for _, f := range []*fault{admit, b.blockingFault()} {
		if f == nil || f.Error() != want.Error() || f.reason != want.reason || !errors.Is(f, ErrNotAsked) || errors.Is(f, io.EOF) || !f.isLocal {
			t.Errorf("got %+v, want what went wrong last: %v", f, want)
		}
	}
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	b, _ := newBreaker()
	bad := connectionFailed("", "bad").withCause(io.EOF)
	for range 5 {
		b.recordFailure(let(t, b), bad)
		b.recordFailure(let(t, b), bad)
		b.recordSuccess(let(t, b))
	}
	b.recordFailure(let(t, b), bad)
	b.recordFailure(let(t, b), bad)
	last := connectionFailed("", "last").withCause(io.EOF)
	b.recordFailure(let(t, b), last)
	refused(t, b, last)
	if got, want := b.retryAt(), time.Unix(1005, 0); !got.Equal(want) {
		t.Errorf("tries again at %v, want %v", got, want)
	}
}

func TestBreakerOpensAtOnceForWhatIsDecided(t *testing.T) {
	b, _ := newBreaker()
	f := providerFailed("", "failed")
	b.recordFailure(let(t, b), f)
	refused(t, b, f)
}

func TestBreakerLetsOneTry(t *testing.T) {
	b, now := newBreaker()
	first, second := providerFailed("", "first"), connectionFailed("", "second")
	b.recordFailure(let(t, b), first)
	now.SetTime(b.retryAt().Add(-time.Nanosecond))
	refused(t, b, first)

	now.SetTime(b.retryAt())
	trial := let(t, b)
	refused(t, b, first)
	// One that says nothing leaves the turn to the next.
	b.releaseTrial(trial)
	trial = let(t, b)
	refused(t, b, first)
	b.recordFailure(trial, second)
	refused(t, b, second)

	now.SetTime(b.retryAt())
	b.recordSuccess(let(t, b))
	if !b.retryAt().IsZero() {
		t.Error("still open after an answer")
	}
	let(t, b)
	let(t, b)
	// Everything is as in the beginning.
	start := now.Now()
	b.recordFailure(let(t, b), first)
	if got := b.retryAt().Sub(start); got != 5*time.Second {
		t.Errorf("the pause is %v, want that of the beginning", got)
	}
}

func TestBreakerPausesLongerAndLonger(t *testing.T) {
	b, now := newBreaker()
	f := providerFailed("", "failed")
	for i, seconds := range []int{5, 10, 20, 40, 60, 60, 60} {
		want := time.Duration(seconds) * time.Second
		b.recordFailure(let(t, b), f)
		if got := b.retryAt().Sub(now.Now()); got != want {
			t.Errorf("pause %d is %v, want %v", i, got, want)
		}
		now.SetTime(b.retryAt())
	}
	b.pauses = 1 << 20
	b.recordFailure(let(t, b), f)
	if got := b.retryAt().Sub(now.Now()); got != time.Minute {
		t.Errorf("pause is %v after very many", got)
	}
}

func TestBreakerJitter(t *testing.T) {
	for chance, want := range map[float64]time.Duration{0: 4 * time.Second, 0.5: 5 * time.Second, 1: 6 * time.Second} {
		b, now := newBreaker()
		b.jitter = func() float64 { return chance }
		b.recordFailure(let(t, b), providerFailed("", "failed"))
		if got := b.retryAt().Sub(now.Now()); got != want {
			t.Errorf("jitter %v: the pause is %v, want %v", chance, got, want)
		}
	}
}

// TestBreakerPassesOverWhatIsLate holds that requests of before neither lengthen the pause nor end it.
func TestBreakerPassesOverWhatIsLate(t *testing.T) {
	b, now := newBreaker()
	f, late := providerFailed("", "failed"), providerFailed("", "late")
	var before []admission
	for range 4 {
		before = append(before, let(t, b))
	}
	b.recordFailure(before[0], f)
	until := b.retryAt()
	b.recordFailure(before[1], late)
	b.recordSuccess(before[2])
	b.releaseTrial(before[3])
	refused(t, b, f)
	if !b.retryAt().Equal(until) {
		t.Error("a late failure changed the pause")
	}
	now.SetTime(until)
	trial := let(t, b)
	b.releaseTrial(before[3])
	refused(t, b, f)
	b.recordSuccess(trial)
	b.recordFailure(before[1], late)
	let(t, b)
}

// TestBreakerRemembersOffences holds that the pauses after answers which are not taken grow, whatever succeeds in between, and
// start over after a long time without one.
func TestBreakerRemembersOffences(t *testing.T) {
	b, now := newBreaker()
	b.opts.MaxOffence = 15 * time.Minute
	bad := connectionFailed("", "bad").withCause(io.EOF)
	wait := func() time.Duration { return b.retryAt().Sub(now.Now()) }
	for _, seconds := range []int{5, 10, 20, 40, 80, 160, 320, 640, 900, 900} {
		want := time.Duration(seconds) * time.Second
		before := let(t, b)
		b.recordOffence(bad)
		b.recordOffence(bad) // of a request that was under way
		b.recordSuccess(before)
		refused(t, b, bad)
		if got := wait(); got != want {
			t.Errorf("a pause of %s, want %s", got, want)
		}
		now.SetTime(now.Now().Add(wait()))
		b.recordSuccess(let(t, b))
		b.recordSuccess(let(t, b))
	}
	now.SetTime(now.Now().Add(15*time.Minute + time.Second))
	b.recordOffence(bad)
	if got := wait(); got != 5*time.Second {
		t.Errorf("a pause of %s after a long time without an offence", got)
	}
}

// TestBreakerCountsALostConnectionOnce holds that the requests which one lost connection ends are one failure, and that each later request counts.
func TestBreakerCountsALostConnectionOnce(t *testing.T) {
	b, _ := newBreaker()
	bad := connectionFailed("", "bad").withCause(io.EOF)
	var before []admission
	for range 8 {
		before = append(before, let(t, b))
	}
	for _, turn := range before {
		b.recordFailure(turn, bad)
	}
	b.recordFailure(let(t, b), bad)
	late := let(t, b)
	b.recordSuccess(let(t, b))
	b.recordFailure(late, bad) // the first failure in a row
	b.recordFailure(let(t, b), bad)
	let(t, b)
	b.recordFailure(let(t, b), bad)
	refused(t, b, bad)
}
