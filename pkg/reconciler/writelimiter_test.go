// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestWriteLimiter holds that each object has a limit of its own, and that a removed object leaves nothing.
func TestWriteLimiter(t *testing.T) {
	const interval, burst = 20 * time.Second, 3
	var l WriteLimiter
	one, two, now := types.NamespacedName{Name: "one"}, types.NamespacedName{Name: "two"}, time.Unix(10000, 0)
	for range burst {
		if wait := l.Take(one, now, interval, burst); wait > 0 {
			t.Fatalf("the first writes wait %s", wait)
		}
	}
	if wait := l.Take(one, now, interval, burst); wait != interval {
		t.Errorf("the next write waits %s", wait)
	}
	if wait := l.Take(two, now, interval, burst); wait > 0 {
		t.Errorf("another object waits %s", wait)
	}
	if wait := l.Take(one, now.Add(interval), interval, burst); wait > 0 {
		t.Errorf("after the interval the write waits %s", wait)
	}
	if l.Forget(one); len(l.limiters) != 1 {
		t.Errorf("%d limiters are left", len(l.limiters))
	}
}
