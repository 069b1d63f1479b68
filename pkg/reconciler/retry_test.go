// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"testing"
	"time"
)

// TestRateLimiter holds that retries become rarer up to once a minute, and differ between objects.
func TestRateLimiter(t *testing.T) {
	limiter := NewRateLimiter[string]()
	pauses := map[time.Duration]bool{}
	for range 30 {
		pause := limiter.When("a")
		if pause > time.Minute {
			t.Fatalf("a pause is %s", pause)
		}
		pauses[pause] = true
	}
	if pause := limiter.When("a"); pause < longestRetry {
		t.Errorf("after 30 failures the pause is %s", pause)
	}
	if len(pauses) < 25 {
		t.Errorf("30 pauses have %d different values", len(pauses))
	}
	if pause := limiter.When("b"); pause > time.Second {
		t.Errorf("the first pause of another object is %s", pause)
	}
	limiter.Forget("a")
	if pause := limiter.When("a"); pause > time.Second {
		t.Errorf("the first pause after a success is %s", pause)
	}
}

func TestSoonest(t *testing.T) {
	for _, tc := range []struct{ a, b, want time.Duration }{
		{0, 0, 0},
		{0, 2, 2},
		{2, 0, 2},
		{1, 2, 1},
		{2, 1, 1},
		{2, 2, 2},
	} {
		if got := Soonest(tc.a, tc.b); got != tc.want {
			t.Errorf("the sooner of %d and %d is %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
