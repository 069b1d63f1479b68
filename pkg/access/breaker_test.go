// Copyright Contributors to the Open Cluster Management project

package access

import (
	"errors"
	"io"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func newBreaker() (*breaker, *clocktesting.FakePassiveClock) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return &breaker{
		opts:  BreakerOptions{Threshold: 3, Base: 5 * time.Second, Max: time.Minute},
		clock: now, jitter: func() float64 { return 0.5 },
	}, now
}

// let is a ticket that has to be given.
func let(t *testing.T, b *breaker) ticket {
	t.Helper()
	if f := b.blocked(); f != nil {
		t.Fatalf("blocked: %v", f)
	}
	turn, f := b.admit()
	if f != nil {
		t.Fatalf("not admitted: %v", f)
	}
	return turn
}

// refused has to be what went wrong last.
func refused(t *testing.T, b *breaker, want *fault) {
	t.Helper()
	_, admit := b.admit()
	for _, f := range []*fault{admit, b.blocked()} {
		if f == nil || f.Error() != want.Error() || f.reason != want.reason || !errors.Is(f, ErrNotAsked) || errors.Is(f, io.EOF) || !f.ours {
			t.Errorf("got %+v, want what went wrong last: %v", f, want)
		}
	}
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	b, _ := newBreaker()
	bad := connectionFailed("", "bad").because(io.EOF)
	for range 5 {
		b.fail(let(t, b), bad)
		b.fail(let(t, b), bad)
		b.succeed(let(t, b))
	}
	b.fail(let(t, b), bad)
	b.fail(let(t, b), bad)
	last := connectionFailed("", "last").because(io.EOF)
	b.fail(let(t, b), last)
	refused(t, b, last)
	if got, want := b.retryAt(), time.Unix(1005, 0); !got.Equal(want) {
		t.Errorf("tries again at %v, want %v", got, want)
	}
}

func TestBreakerOpensAtOnceForWhatIsDecided(t *testing.T) {
	b, _ := newBreaker()
	f := providerFailed("", "failed")
	b.fail(let(t, b), f)
	refused(t, b, f)
}

func TestBreakerLetsOneTry(t *testing.T) {
	b, now := newBreaker()
	first, second := providerFailed("", "first"), connectionFailed("", "second")
	b.fail(let(t, b), first)
	now.SetTime(b.retryAt().Add(-time.Nanosecond))
	refused(t, b, first)

	now.SetTime(b.retryAt())
	trial := let(t, b)
	refused(t, b, first)
	// One that says nothing leaves the turn to the next.
	b.pass(trial)
	trial = let(t, b)
	refused(t, b, first)
	b.fail(trial, second)
	refused(t, b, second)

	now.SetTime(b.retryAt())
	b.succeed(let(t, b))
	if !b.retryAt().IsZero() {
		t.Error("still open after an answer")
	}
	let(t, b)
	let(t, b)
	// Everything is as in the beginning.
	start := now.Now()
	b.fail(let(t, b), first)
	if got := b.retryAt().Sub(start); got != 5*time.Second {
		t.Errorf("the pause is %v, want that of the beginning", got)
	}
}

func TestBreakerPausesLongerAndLonger(t *testing.T) {
	b, now := newBreaker()
	f := providerFailed("", "failed")
	for i, seconds := range []int{5, 10, 20, 40, 60, 60, 60} {
		want := time.Duration(seconds) * time.Second
		b.fail(let(t, b), f)
		if got := b.retryAt().Sub(now.Now()); got != want {
			t.Errorf("pause %d is %v, want %v", i, got, want)
		}
		now.SetTime(b.retryAt())
	}
	b.pauses = 1 << 20
	b.fail(let(t, b), f)
	if got := b.retryAt().Sub(now.Now()); got != time.Minute {
		t.Errorf("pause is %v after very many", got)
	}
}

func TestBreakerJitter(t *testing.T) {
	for chance, want := range map[float64]time.Duration{0: 4 * time.Second, 0.5: 5 * time.Second, 1: 6 * time.Second} {
		b, now := newBreaker()
		b.jitter = func() float64 { return chance }
		b.fail(let(t, b), providerFailed("", "failed"))
		if got := b.retryAt().Sub(now.Now()); got != want {
			t.Errorf("jitter %v: the pause is %v, want %v", chance, got, want)
		}
	}
}

// TestBreakerPassesOverWhatIsLate holds that requests of before neither lengthen the pause nor end it.
func TestBreakerPassesOverWhatIsLate(t *testing.T) {
	b, now := newBreaker()
	f, late := providerFailed("", "failed"), providerFailed("", "late")
	var before []ticket
	for range 4 {
		before = append(before, let(t, b))
	}
	b.fail(before[0], f)
	until := b.retryAt()
	b.fail(before[1], late)
	b.succeed(before[2])
	b.pass(before[3])
	refused(t, b, f)
	if !b.retryAt().Equal(until) {
		t.Error("a late failure changed the pause")
	}
	now.SetTime(until)
	trial := let(t, b)
	b.pass(before[3])
	refused(t, b, f)
	b.succeed(trial)
	b.fail(before[1], late)
	let(t, b)
}
