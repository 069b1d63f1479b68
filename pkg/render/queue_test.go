// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// A namespace with many dear tasks takes some of the places, and the tasks of others come in turn.
func TestQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		start := time.Now() //nolint:forbidigo // the clock is that of the bubble
		finished := map[string]time.Duration{}
		var order []string
		done := make(chan string)
		submit := func(namespace string, n int, takes time.Duration) {
			q.submitTask(namespace, func() {
				time.Sleep(takes)
				done <- fmt.Sprintf("%s%d", namespace, n)
			})
		}
		for n := range 13 {
			submit("dear", n, maxRenderTime)
		}
		for n := range 2 {
			submit("cheap", n, time.Millisecond)
			submit("other", n, time.Millisecond)
		}
		for range 17 {
			name := <-done
			order = append(order, name)
			finished[name] = time.Since(start) //nolint:forbidigo // the clock is that of the bubble
		}
		if diff := cmp.Diff([]string{"cheap0", "other0", "cheap1", "other1"}, order[:4]); diff != "" {
			t.Errorf("the first tasks (-want +got):\n%s", diff)
		}
		if last := slices.Max([]time.Duration{finished["cheap1"], finished["other1"]}); last > maxRenderTime {
			t.Errorf("the tasks of others end after %s, want at most the time of one rendering", last)
		}
		synctest.Wait()
		if q.running != 0 || len(q.lines) != 0 || q.turns.Len() != 0 {
			t.Errorf("%d tasks, %d lines and %d turns are left", q.running, len(q.lines), q.turns.Len())
		}
	})
}

// Two hostile namespaces take every place; a third one waits for one rendering at most.
func TestQueueDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		start := time.Now() //nolint:forbidigo // the clock is that of the bubble
		for n := range 40 {
			q.submitTask(fmt.Sprintf("dear%d", n%2), func() { time.Sleep(maxRenderTime) })
		}
		var took time.Duration
		q.submitTask("cheap", func() { took = time.Since(start) }) //nolint:forbidigo // the clock is that of the bubble
		time.Sleep(time.Hour)
		synctest.Wait()
		if took > maxRenderTime {
			t.Errorf("the task of the third namespace began after %s, want at most %s", took, maxRenderTime)
		}
	})
}

// Callers wait for few renderings of a namespace at a time, and for few at all.
func TestGate(t *testing.T) {
	var g waiterLimit
	var got []bool
	for _, namespace := range []string{"a", "a", "a", "b", "b", "c"} {
		got = append(got, g.admitWaiter(namespace))
	}
	if diff := cmp.Diff([]bool{true, true, false, true, true, false}, got); diff != "" {
		t.Errorf("who may wait (-want +got):\n%s", diff)
	}
	g.releaseWaiter("a")
	if !g.admitWaiter("c") || g.admitWaiter("a") {
		t.Error("the place of a is not that of c")
	}
	for _, namespace := range []string{"a", "b", "b", "c"} {
		g.releaseWaiter(namespace)
	}
	if g.waiting != 0 || len(g.of) != 0 {
		t.Errorf("%+v is left", &g.of)
	}
}

// A rendering that takes too long is an error for its callers, keeps its place until it ends, and is not tried again.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundles(0)
		var began int
		var cause error
		dear := func(ctx context.Context, begin func()) (*Bundle, error) {
			began++
			time.Sleep(maxRenderTime / 2) // it waits for others
			begin()
			time.Sleep(3 * maxRenderTime)
			cause = context.Cause(ctx)
			return &Bundle{}, nil
		}
		for range 3 {
			bundle, err := b.startRendering("dear", key{}, dear).awaitBundle(t.Context())
			if bundle != nil || ReasonOf(err) != api.ReasonRenderTimeout || !containsText(err, "spec.patches") {
				t.Errorf("%v, %v; want %s", bundle, err, api.ReasonRenderTimeout)
			}
		}
		if running := runningTasks(b.queue); running != 1 {
			t.Errorf("%d renderings have a place, want the one that goes on", running)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if running := runningTasks(b.queue); began != 1 || running != 0 || ReasonOf(cause) != api.ReasonRenderTimeout {
			t.Errorf("rendered %d times, %d go on, the context's cause is %v", began, running, cause)
		}
		if _, err := b.startRendering("dear", key{}, dear).awaitBundle(t.Context()); ReasonOf(err) != api.ReasonRenderTimeout {
			t.Errorf("after the end: %v", err)
		}
	})
}

func runningTasks(q *queue) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

// A panic is an error of its content, for every caller, and stops nothing.
func TestPanic(t *testing.T) {
	b := newBundles(0)
	rendered := 0
	for range 2 {
		bundle, err := b.startRendering("", key{}, func(context.Context, func()) (*Bundle, error) {
			rendered++
			panic("boom")
		}).awaitBundle(t.Context())
		if bundle != nil || ReasonOf(err) != api.ReasonRenderFailed || !containsText(err, "boom") {
			t.Errorf("%v, %v; want %s", bundle, err, api.ReasonRenderFailed)
		}
	}
	if rendered != 1 {
		t.Errorf("rendered %d times", rendered)
	}
	if bundle, err := b.startRendering("", key{version: "b"}, func(context.Context, func()) (*Bundle, error) { return &Bundle{}, nil }).awaitBundle(t.Context()); err != nil || bundle == nil {
		t.Errorf("the next one: %v", err)
	}
}

// The cache is bounded in bytes, and a namespace that fills it pushes out its own bundles.
func TestCacheShares(t *testing.T) {
	b := newBundles(0)
	b.capacity = 10_000 + 20*entryBytes
	rendered := map[string]int{}
	get := func(namespace, version string, size int) {
		t.Helper()
		_, err := b.startRendering(namespace, key{version: version}, func(context.Context, func()) (*Bundle, error) {
			rendered[version]++
			return &Bundle{unshared: size}, nil
		}).awaitBundle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	get("small", "a", 100)
	get("small", "b", 100)
	for n := range 50 {
		get("large", fmt.Sprint(n), 9_000)
	}
	get("small", "a", 100)
	get("small", "b", 100)
	if rendered["a"] != 1 || rendered["b"] != 1 {
		t.Errorf("the bundles of the small namespace were rendered %d and %d times, want once", rendered["a"], rendered["b"])
	}
	if b.cost > b.capacity {
		t.Errorf("the cache has %d bytes, want at most %d", b.cost, b.capacity)
	}
}

// TestQueuedInputsAreBounded holds that a tenant who changes specs faster than the manager renders does not fill the memory, and that renderings of
// one spec for many clusters, and of other namespaces, still wait in the queue.
func TestQueuedInputsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, unlock := newBundles(0), make(chan struct{})
		start := func(namespace string, content, cluster byte) *entry {
			e := b.startRendering(namespace, key{content: [32]byte{content}, cluster: [32]byte{cluster}}, func(context.Context, func()) (*Bundle, error) {
				<-unlock
				return &Bundle{}, nil
			})
			synctest.Wait() // the rendering begins, or waits for its turn
			return e
		}
		var waiting []*entry
		for content := range byte(maxQueuedInputs + maxRendersOfNamespace) {
			waiting = append(waiting, start("team", content, 0))
		}
		if refused := start("team", 200, 0); !refused.isSettled() || !IsPending(refused.err) {
			t.Errorf("another spec waits: %v", refused.err)
		}
		for cluster := range byte(100) {
			waiting = append(waiting, start("team", maxQueuedInputs, cluster+1))
		}
		waiting = append(waiting, start("other", 200, 0))
		for _, e := range waiting {
			if e.isSettled() {
				t.Fatalf("a rendering is refused: %v", e.err)
			}
		}
		close(unlock)
		for _, e := range append(waiting, start("team", 200, 0)) {
			if _, err := e.awaitBundle(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Workers do not wait for what takes long, and get the bundle when they ask again.
func TestRenderPromptly(t *testing.T) {
	r, err := New(Config{ReleasesDir: shared.catalog.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a test
	in := install(t, api.Serving, kourier)
	unlock := make(chan struct{})
	for range maxRendersOfNamespace { // resources before this one
		r.bundles.queue.submitTask(in.Namespace(), func() { <-unlock })
	}
	for range maxWaitingForNamespace { // and workers that wait
		r.waiters.admitWaiter(in.Namespace())
	}
	if _, err := r.RenderPromptly(t.Context(), in, DefaultOptions(api.ModeManifestWork)); !IsPending(err) || !containsText(err, `KnativeServing "fleet/knative"`) {
		t.Errorf("RenderPromptly behind others: %v", err)
	}
	if IsPending(nil) || IsPending(errors.New("x")) {
		t.Error("something else is pending")
	}
	close(unlock)
	b, err := r.Render(t.Context(), in, DefaultOptions(api.ModeManifestWork))
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.RenderPromptly(t.Context(), in, DefaultOptions(api.ModeManifestWork))
	if err != nil || again != b {
		t.Errorf("RenderPromptly later: %v", err)
	}
	if stats := r.CacheStats(); stats.Misses != 1 {
		t.Errorf("rendered %d times", stats.Misses)
	}
}
