// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
)

var (
	errAway      = errors.New("no answer")
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
)

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

// fakeCluster lists ConfigMaps. The test decides how watches begin.
type fakeCluster struct {
	begin func(ctx context.Context) (watch.Interface, error)

	mu      sync.Mutex
	version int
	objects map[string]*Object
	away    error
	lists   int
	watches int
	options metav1.ListOptions // of the last list
}

func (l *fakeCluster) listObjects(_ context.Context, _ Place, options metav1.ListOptions, _ *View) (objects []*Object, version string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists++
	l.options = options
	if wanted, _ := strconv.Atoi(options.ResourceVersion); wanted > l.version {
		return nil, "", apierrors.NewTimeoutError("Too large resource version", 1)
	}
	if l.away != nil {
		return nil, "", l.away
	}
	for _, s := range l.objects {
		objects = append(objects, s)
	}
	return objects, strconv.Itoa(l.version), nil
}

func (l *fakeCluster) watchObjects(ctx context.Context, _ Place, _ metav1.ListOptions) (watch.Interface, error) {
	l.mu.Lock()
	l.watches++
	away := l.away
	l.mu.Unlock()
	if away != nil {
		return nil, away
	}
	return l.begin(ctx)
}

// change changes a field of an object and returns the object.
func (l *fakeCluster) change(name string) *metav1.PartialObjectMetadata {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(name, strconv.Itoa(l.version+1))
}

// write writes an object with a field.
func (l *fakeCluster) write(name, field string) *metav1.PartialObjectMetadata {
	l.version++
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: "uid", ResourceVersion: strconv.Itoa(l.version), Labels: map[string]string{api.ComponentLabel: "serving"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:` + field + `":{}}`)},
		}},
	}}
	l.objects[name] = newObject(&o.ObjectMeta)
	return o
}

func (l *fakeCluster) lose(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.objects, name)
}

func (l *fakeCluster) object(name string) *Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[name]
}

func (l *fakeCluster) restore(version int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = version
}

func (l *fakeCluster) lastOptions() metav1.ListOptions {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.options
}

func (l *fakeCluster) setAway(away error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

func (l *fakeCluster) counts() (lists, watches int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists, l.watches
}

// followedCluster runs a reflector of a fakeCluster in a synctest bubble.
type followedCluster struct {
	*fakeCluster
	*reflector
	lines []string
	// doubts counts the calls of onChange without a component: the cluster may be unreachable.
	doubts atomic.Int32
}

func follow(t *testing.T, limit *WatchLimit, begin func(ctx context.Context) (watch.Interface, error)) *followedCluster {
	t.Helper()
	return followPlace(t, Place{configMaps(), "team"}, limit, begin)
}

// followPlace runs a reflector of a place of another cluster.
func followPlace(t *testing.T, at Place, limit *WatchLimit, begin func(ctx context.Context) (watch.Interface, error)) *followedCluster {
	t.Helper()
	o := newFollowedCluster(at, begin)
	log := funcr.New(func(_, args string) { o.lines = append(o.lines, args) }, funcr.Options{})
	o.policy = &watchPolicy{interval: DefaultPollInterval, limit: limit, log: log, startSlot: make(chan struct{}, 1)}
	o.poller = newPoller(DefaultPollInterval, nil)
	o.start(t)
	return o
}

// joinPolicy runs a reflector of a further place of a cluster.
func joinPolicy(t *testing.T, of *followedCluster, at Place, begin func(ctx context.Context) (watch.Interface, error)) *followedCluster {
	t.Helper()
	o := newFollowedCluster(at, begin)
	o.policy, o.poller = of.policy, of.poller
	o.start(t)
	return o
}

func newFollowedCluster(at Place, begin func(ctx context.Context) (watch.Interface, error)) *followedCluster {
	o := &followedCluster{fakeCluster: &fakeCluster{begin: begin, version: 10, objects: map[string]*Object{}}}
	o.reflector = &reflector{view: newView(o.recordChange), source: o.fakeCluster, at: at}
	return o
}

func (o *followedCluster) start(t *testing.T) {
	t.Helper()
	o.view.onStateChange = o.poller.recordChange
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.run(ctx) }()
	t.Cleanup(func() { cancel(); o.poller.close(); <-done })
	synctest.Wait()
}

func (o *followedCluster) recordChange(c api.Component) {
	if c == "" {
		o.doubts.Add(1)
	}
}

// pass advances the time of the bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// isSeen fails unless the view has the current version of the object within a time.
func (o *followedCluster) isSeen(t *testing.T, name string, within time.Duration) {
	t.Helper()
	pass(within)
	want := o.object(name)
	got := o.view.Get("", name)
	if got == nil || got.ResourceVersion != want.ResourceVersion {
		t.Errorf("after %s it is seen as %v, want version %s", within, got, want.ResourceVersion)
	}
	if o.view.IsBehind(want.ResourceVersion) {
		t.Errorf("the view has only come to version %s", o.view.currentVersion())
	}
}

// becomesSeen fails unless the view gets the current version of object a within a time.
func (o *followedCluster) becomesSeen(t *testing.T, within time.Duration) {
	t.Helper()
	start, want := time.Now(), o.object("a").ResourceVersion
	for time.Since(start) < within && o.view.IsBehind(want) {
		pass(100 * time.Millisecond)
	}
	o.isSeen(t, "a", 0)
}

// TestPolledInstead holds that a cluster whose watches are of no use is listed, that it is said once, and that watching is
// tried again later.
func TestPolledInstead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no"))
	for name, tc := range map[string]struct {
		begin func(ctx context.Context) (watch.Interface, error)
		// finds is how long it takes to find that out; a change is seen before.
		finds time.Duration
	}{
		"forbidden": {func(context.Context) (watch.Interface, error) { return nil, forbidden }, 0},
		"not begun": {func(ctx context.Context) (watch.Interface, error) { <-ctx.Done(); return nil, ctx.Err() }, time.Minute},
		"broken off": {func(context.Context) (watch.Interface, error) {
			return nil, apierrors.NewGenericServerResponse(502, "", schema.GroupResource{}, "", "", 0, true)
		}, time.Minute},
		"cut off": {func(context.Context) (watch.Interface, error) {
			w := watch.NewFake()
			w.Stop()
			return w, nil
		}, time.Minute},
		"mute": {func(context.Context) (watch.Interface, error) { return watch.NewFake(), nil }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { polledInstead(t, tc.begin, tc.finds) })
		})
	}
}

func polledInstead(t *testing.T, begin func(ctx context.Context) (watch.Interface, error), finds time.Duration) {
	t.Helper()
	o := follow(t, nil, begin)
	o.change("a")
	o.isSeen(t, "a", 12*time.Second)
	pass(finds)
	_, watches := o.counts()
	o.change("a")
	o.becomesSeen(t, 12*time.Second+finds) // the interval has grown while nothing changed
	for range 5 {
		o.change("a")
		o.becomesSeen(t, 12*time.Second)
	}
	if _, now := o.counts(); now != watches {
		t.Errorf("%d watches were tried while it is polled", now-watches)
	}
	if last := o.lastOptions(); last.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		t.Errorf("the list asks for what the API server has not in its cache: %v", last)
	}
	pass(2 * minWatchRetry)
	if _, now := o.counts(); now == watches {
		t.Error("watching is not tried again")
	}
	if len(o.lines) != 1 {
		t.Errorf("it is said %d times: %q", len(o.lines), o.lines)
	}
}

// TestWatched holds that a cluster that can be watched is not listed, neither while nothing changes nor when a watch ends,
// and that one that is away is taken for nothing else.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current *watch.FakeWatcher
		o := follow(t, nil, func(context.Context) (watch.Interface, error) {
			current = watch.NewFake()
			return current, nil
		})
		current.Add(o.change("a"))
		o.isSeen(t, "a", 0)
		lists, _ := o.counts()
		for range 10 {
			pass(time.Minute)
			elsewhere := o.change("elsewhere")
			o.lose("elsewhere")
			current.Action(watch.Bookmark, elsewhere)
		}
		pass(time.Minute)
		current.Stop()
		pass(time.Second)
		current.Modify(o.change("a"))
		o.isSeen(t, "a", 0)
		gone := o.change("a")
		o.lose("a")
		current.Delete(gone)
		synctest.Wait()
		if o.view.Get("", "a") != nil {
			t.Error("what is gone is still seen")
		}
		if now, watches := o.counts(); now != lists || watches != 2 {
			t.Errorf("it was listed %d times, and watched %d times", now-lists, watches)
		}
		if live := o.policy.liveWatches.Load(); live != 1 || o.doubts.Load() > 0 {
			t.Errorf("%d watches are live, want 1; %d doubts, want none", live, o.doubts.Load())
		}

		o.setAway(errAway)
		current.Error(&apierrors.NewInternalError(errAway).ErrStatus)
		synctest.Wait()
		if live := o.policy.liveWatches.Load(); live != 0 || o.doubts.Load() != 1 {
			t.Errorf("%d watches are live, want none; %d doubts, want one at once", live, o.doubts.Load())
		}
		if lost := o.policy.lostAt.Load(); lost == nil || !lost.Equal(time.Now()) {
			t.Errorf("the watch was lost at %v, want now", lost)
		}
		if lost := o.policy.connectionLostAt.Load(); lost != nil {
			t.Errorf("the connection was lost at %v, and the API server ended the watch", lost)
		}
		pass(time.Hour)
		o.setAway(nil)
		o.change("b")
		o.isSeen(t, "b", time.Minute)
		current.Modify(o.change("b"))
		o.isSeen(t, "b", 0)
		if len(o.lines) > 0 {
			t.Errorf("a cluster that was away is said to refuse: %q", o.lines)
		}
	})
}

// TestRestored holds that a cluster whose versions go back, since it was restored from a backup, is seen all the same.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := follow(t, NewWatchLimit(0), nil)
		o.change("a")
		o.isSeen(t, "a", 12*time.Second)
		if n := o.policy.restorations.Load(); n != 0 {
			t.Errorf("it is said to have been restored %d times before", n)
		}
		o.restore(3)
		o.change("a")
		o.isSeen(t, "a", 15*time.Second)
		if n := o.policy.restorations.Load(); n != 1 {
			t.Errorf("it is said to have been restored %d times", n)
		}
	})
}

// TestWatchLimit holds that who is watched stays so, and that a free place is taken by the next.
func TestWatchLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := NewWatchLimit(2)
		begin := func(context.Context) (watch.Interface, error) { return watch.NewFake(), nil }
		var all []*followedCluster
		for range 4 {
			all = append(all, follow(t, limit, begin))
		}
		watching := func() (out [4]int) {
			for i, o := range all {
				_, out[i] = o.counts()
			}
			return out
		}
		pass(time.Minute)
		if got := watching(); got != [4]int{1, 1, 0, 0} {
			t.Errorf("watched are %v, want the first two", got)
		}
		all[0].policy.close()
		pass(time.Minute)
		if got := watching(); got[0] != 1 || got[1] != 1 || got[2]+got[3] != 1 {
			t.Errorf("watched are %v, want one more than the first two", got)
		}
	})
}

// TestListRefused holds that a credential which may not list any more is noticed when it has to, told once, and that it is
// seen when it may again. A cluster that is away in between changes nothing of it.
func TestListRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := follow(t, NewWatchLimit(0), nil)
		o.change("a")
		o.isSeen(t, "a", 12*time.Second)
		if err := o.view.listError(); err != nil || o.doubts.Load() > 0 {
			t.Fatalf("refused: %v, told %d times", err, o.doubts.Load())
		}
		o.setAway(errForbidden)
		pass(5 * time.Minute)
		if err := o.view.listError(); !apierrors.IsForbidden(err) || o.doubts.Load() != 1 {
			t.Errorf("refused: %v, told %d times, want once", err, o.doubts.Load())
		}
		o.setAway(errAway)
		pass(5 * time.Minute)
		if err := o.view.listError(); !apierrors.IsForbidden(err) || o.doubts.Load() != 1 {
			t.Errorf("away: %v, told %d times, want once", err, o.doubts.Load())
		}
		o.setAway(nil)
		o.change("a")
		o.isSeen(t, "a", time.Minute)
		if err := o.view.listError(); err != nil || o.doubts.Load() != 2 {
			t.Errorf("allowed again: %v, told %d times, want twice", err, o.doubts.Load())
		}
	})
}

// TestWithoutSlotWorkloadsAreWatched holds that a cluster without a slot of the limit has watches of workloads and of no other objects, and
// that all places are watched as soon as a slot is free.
func TestWithoutSlotWorkloadsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := NewWatchLimit(1)
		begin := func(context.Context) (watch.Interface, error) { return watch.NewFake(), nil }
		first := follow(t, limit, begin)
		workloads := followPlace(t, deployments(), limit, begin)
		other := joinPolicy(t, workloads, Place{configMaps(), "team"}, begin)
		pass(time.Minute)
		_, watchesOfWorkloads := workloads.counts()
		if _, watches := other.counts(); watchesOfWorkloads != 1 || watches != 0 {
			t.Errorf("%d watches of Deployments and %d of ConfigMaps, want 1 and none", watchesOfWorkloads, watches)
		}
		if !workloads.policy.watches(workloads.at) || workloads.policy.watches(other.at) {
			t.Error("the policy reports other watches than there are")
		}
		first.policy.close()
		pass(2 * maxPollInterval)
		if _, watches := other.counts(); watches != 1 {
			t.Errorf("%d watches of ConfigMaps with a slot, want 1", watches)
		}
	})
}

// TestRemovedKindIsForgotten holds that a view ends when the cluster does not serve the kind any more, and that the first list, whose result a
// pass awaits, ends no view.
func TestRemovedKindIsForgotten(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "")
	synctest.Test(t, func(t *testing.T) {
		dropped := 0
		o := newFollowedCluster(Place{configMaps(), "team"}, func(context.Context) (watch.Interface, error) { return nil, gone })
		o.policy = &watchPolicy{interval: DefaultPollInterval, startSlot: make(chan struct{}, 1), log: logr.Discard()}
		o.poller = newPoller(DefaultPollInterval, nil)
		ctx, cancel := context.WithCancel(t.Context())
		o.dropView = func() { dropped++; cancel() }
		done := make(chan struct{})
		go func() { defer close(done); o.run(ctx) }()
		synctest.Wait()
		if dropped > 0 || !o.view.isListed() {
			t.Errorf("the view of a served kind is dropped %d times", dropped)
		}
		o.setAway(gone)
		pass(2 * DefaultPollInterval)
		if dropped != 1 || o.doubts.Load() == 0 {
			t.Errorf("the view is dropped %d times, and %d passes follow", dropped, o.doubts.Load())
		}
		cancel()
		o.poller.close()
		<-done
	})
}
