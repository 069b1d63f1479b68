// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"slices"
	"testing"
	"time"
)

func TestFindExcess(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// every returns the times of requests, one in each interval.
	every := func(interval time.Duration, requests int) []time.Time {
		var out []time.Time
		for n := range requests {
			out = append(out, begin.Add(time.Duration(n)*interval))
		}
		return out
	}
	limit := RateLimit{QPS: 5, Burst: 10}
	for name, c := range map[string]struct {
		received []time.Time
		excess   bool
	}{
		"no request":                        {},
		"a burst, then the average":         {received: slices.Concat(every(0, 10), every(200*time.Millisecond, 100))},
		"requests that arrive together":     {received: every(0, 20)},
		"too many requests at once":         {received: every(0, 21), excess: true},
		"too many requests a second":        {received: every(100*time.Millisecond, 100), excess: true},
		"a burst after requests at average": {received: slices.Concat(every(time.Second, 60), slices.Repeat([]time.Time{begin.Add(time.Minute)}, 30)), excess: true},
		"requests in no order":              {received: slices.Concat(every(200*time.Millisecond, 50), every(time.Millisecond, 1), every(0, 9))},
	} {
		t.Run(name, func(t *testing.T) {
			if excess := limit.FindExcess(c.received); (excess != "") != c.excess {
				t.Errorf("the excess is %q, want any: %t", excess, c.excess)
			}
		})
	}
}
