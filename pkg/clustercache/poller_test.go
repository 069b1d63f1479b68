// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

// deployments are a place of workloads.
func deployments() Place {
	return Place{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "team"}
}

// TestPollsBecomeRare holds that a place is listed again after as long as nothing has changed, and at the shortest interval after a change
// of the state of an object. Another resource version alone is no change.
func TestPollsBecomeRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := follow(t, NewWatchLimit(0), nil)
		listsIn := func(d time.Duration) int {
			before, _ := o.counts()
			pass(d)
			after, _ := o.counts()
			return after - before
		}
		if n := listsIn(time.Hour); n > 25 {
			t.Errorf("%d lists in an hour without changes", n)
		}
		if n := listsIn(time.Hour); n < 12 || n > 16 {
			t.Errorf("%d lists in the second hour, want an interval up to %s", n, maxPollInterval)
		}
		field := func(field string) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.write("a", field)
		}
		field("x")
		o.becomesSeen(t, maxPollInterval+time.Second)
		if n := listsIn(12 * time.Second); n != 1 {
			t.Errorf("%d lists after a change, want one within the shortest interval", n)
		}
		pass(time.Hour)
		field("x")
		o.becomesSeen(t, maxPollInterval+time.Second)
		if n := listsIn(time.Minute); n > 1 {
			t.Errorf("%d lists in a minute after a write that changes no state", n)
		}
		pass(time.Hour)
		o.poller.recordChange()
		synctest.Wait()
		if n := listsIn(35 * time.Second); n < 2 {
			t.Errorf("%d lists in 35 seconds after a write of the manager", n)
		}
		pass(time.Hour)
		o.poller.requestLists()
		synctest.Wait()
		if n := listsIn(relistSpread); n != 1 {
			t.Errorf("%d lists in %s after a request without an answer, want one", n, relistSpread)
		}
		if n := listsIn(time.Minute); n > 1 {
			t.Errorf("%d lists in the minute after", n)
		}
		pass(time.Hour)
		for range 40 {
			o.poller.requestLists()
			pass(5 * time.Second)
		}
		if n := listsIn(maxPollInterval); n < 1 {
			t.Error("requests without answers postpone the lists for ever")
		}
		pass(time.Hour)
		o.setAway(errAway)
		pass(maxPollInterval)
		o.setAway(nil)
		o.change("a")
		o.becomesSeen(t, 40*time.Second) // the longest pause after a failed list, and its jitter
	})
}

// TestPollsOfWorkloadsStayFrequent holds that the interval for workloads never grows where watches are refused.
func TestPollsOfWorkloadsStayFrequent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := followPlace(t, deployments(), nil, func(context.Context) (watch.Interface, error) { return nil, errForbidden })
		for range 5 {
			pass(20 * time.Minute)
			o.change("a")
			o.becomesSeen(t, 12*time.Second)
		}
	})
}

// TestPollsOfJobsStayFrequent holds that the interval for Jobs grows only when every Job has finished.
func TestPollsOfJobsStayFrequent(t *testing.T) {
	for name, tc := range map[string]struct {
		object   *Object
		frequent bool
	}{
		"a running Job":          {&Object{Job: &Job{}}, true},
		"a complete Job":         {&Object{Job: &Job{Complete: true}}, false},
		"a failed Job":           {&Object{Job: &Job{Failed: true}}, false},
		"a Service of Knative":   {&Object{Service: &workload.ServiceState{Ready: "Unknown"}}, true},
		"a Service that answers": {&Object{Service: &workload.ServiceState{Ready: "True"}}, false},
		"any other object":       {&Object{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newFollowedCluster(Place{configMaps(), "team"}, nil)
				o.objects["a"] = tc.object
				o.policy, o.poller = &watchPolicy{interval: DefaultPollInterval, limit: NewWatchLimit(0)}, newPoller(DefaultPollInterval, nil)
				o.start(t)
				pass(time.Hour)
				before, _ := o.counts()
				pass(time.Minute)
				if after, _ := o.counts(); (after-before > 4) != tc.frequent {
					t.Errorf("%d lists in a minute", after-before)
				}
			})
		})
	}
}

// TestPlacesShareBatches holds that the places of a cluster are listed at the same time, although the first lists were at different times, and
// that a place that failed awaits its pause.
func TestPlacesShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(DefaultPollInterval, nil)
		defer p.close()
		var mu sync.Mutex
		times := map[string][]time.Time{}
		add := func(name string, pause time.Duration) {
			p.addPlace(&polledPlace{
				list: func() (time.Duration, bool) {
					mu.Lock()
					defer mu.Unlock()
					times[name] = append(times[name], time.Now())
					return pause, true
				},
				needsFrequentLists: func() bool { return false },
			})
		}
		for _, name := range []string{"a", "b", "c"} {
			add(name, 0)
			pass(300 * time.Millisecond)
		}
		pass(24 * time.Hour) // each interval has a random part
		mu.Lock()
		clear(times)
		mu.Unlock()
		pass(time.Hour)
		mu.Lock()
		if len(times["a"]) == 0 || !slices.EqualFunc(times["a"], times["b"], time.Time.Equal) || !slices.EqualFunc(times["a"], times["c"], time.Time.Equal) {
			t.Errorf("the lists are at different times: %v", times)
		}
		mu.Unlock()
		add("failing", maxListPause)
		before := time.Now()
		pass(10 * maxListPause)
		mu.Lock()
		defer mu.Unlock()
		last := before
		for _, at := range times["failing"][1:] {
			if at.Sub(last) < maxListPause {
				t.Errorf("a list comes %s after a failure, want %s", at.Sub(last), maxListPause)
			}
			last = at
		}
	})
}

// TestLargeFleetsAreListedRarely holds that the longest interval grows with the number of polled clusters, and shrinks with the number.
func TestLargeFleetsAreListedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := NewListLimit()
		var pollers []*poller
		expect := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := limit.longestInterval(); got != want {
				t.Errorf("%d clusters are listed every %s, want %s", len(pollers), got, want)
			}
		}
		for want, clusters := range map[time.Duration]int{maxPollInterval: 100, 10 * time.Minute: 1000, maxFleetPollInterval: 5000} {
			for range clusters {
				p := newPoller(DefaultPollInterval, limit)
				p.addPlace(&polledPlace{
					list: func() (time.Duration, bool) { return 0, true }, needsFrequentLists: func() bool { return false },
				})
				pollers = append(pollers, p)
			}
			expect(want)
			for _, p := range pollers {
				p.close()
			}
			pollers = nil
		}
		expect(maxPollInterval)
	})
}
