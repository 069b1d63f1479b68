// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestConcurrent renders different resources of both kinds from 32 goroutines, while others decode and read the same
// ones. Each gets what it would get alone, and each content is rendered once.
func TestConcurrent(t *testing.T) {
	r, err := New(Config{ReleasesDir: shared.catalog.dir, Trust: trustAll()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a test
	const goroutines, contents = 32, 8
	resources := make([]*unstructured.Unstructured, contents)
	want := make([]string, contents)
	for n := range contents {
		component := api.Components()[n%2]
		text := fmt.Sprintf("high-availability: {replicas: %d}\nnamespace: {labels: {n: '%d'}}\n", n, n)
		if component == api.Serving {
			text += kourier
		}
		resources[n], want[n] = resource(t, component, text), bundle(t, component, text).Digest
	}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for round := range 3 {
				n := (g + round) % contents
				if err := renderAndRead(r, resources[n], want[n]); err != nil {
					t.Errorf("content %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	stats := r.CacheStats()
	if stats.Misses != contents || stats.Hits != goroutines*3-contents || stats.Bundles != contents {
		t.Errorf("%+v, want each of %d contents rendered once", stats, contents)
	}
}

// renderAndRead decodes, renders and reads all of a bundle.
func renderAndRead(r *Renderer, u *unstructured.Unstructured, digest string) error {
	in, err := Decode(u)
	if err != nil {
		return err
	}
	b, err := r.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
	if err != nil {
		return err
	}
	if b.Digest != digest {
		return fmt.Errorf("the digest is %s, want %s as alone", b.Digest, digest)
	}
	for _, o := range b.Objects() {
		_ = o.GetLabels()
	}
	_ = Images(b)
	return nil
}

// Nothing in a bundle depends on the order of maps, on what was rendered or parsed before, or on the Renderer.
func TestDeterministic(t *testing.T) {
	for component, text := range map[api.Component]string{
		api.Serving: kourier + `
registry: {default: "mirror.example.com/${NAME}:v1", override: {activator: "a.example.com/a:v1", autoscaler: "a.example.com/b:v1"}}
config: {autoscaler: {a: '1', b: '2', c: '3', d: '4'}, logging: {e: '5', f: '6'}}
workloads: [{name: controller, labels: {a: b, c: d, e: f}, annotations: {g: h, i: j, k: l}, nodeSelector: {pool: one, zone: two}}]
namespace: {labels: {q: r, s: t}, annotations: {u: v, w: x}}`,
		api.Eventing: "source: {kafka: {enabled: true}, rabbitmq: {enabled: true}, ceph: {enabled: true}}\nconfig: {features: {a: b, transport-encryption: strict}}",
	} {
		digests := map[string]bool{}
		for round := range 5 {
			if round == 3 {
				forgetParsed()
			}
			r, err := New(Config{ReleasesDir: shared.catalog.dir, Trust: trustAll()})
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.Render(context.Background(), install(t, component, text), DefaultOptions(api.ModeManifestWork))
			if err != nil {
				t.Fatal(err)
			}
			digests[b.Digest] = true
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(digests) != 1 {
			t.Errorf("%s has %d digests for the same input", component, len(digests))
		}
	}
}

// Bundles share what they have in common, and what no bundle has any more is gone.
func TestObjectStore(t *testing.T) {
	r, err := New(Config{ReleasesDir: shared.catalog.dir, CacheSize: 2, Trust: trustAll()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a test
	render := func(n int) *Bundle {
		t.Helper()
		in := install(t, api.Serving, fmt.Sprintf("%sconfig: {autoscaler: {n: '%d'}}", kourier, n))
		b, err := r.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first, second := render(0), render(1)
	alone := 0
	for n, o := range second.Objects() {
		if first.Objects()[n].Unstructured != o.Unstructured {
			alone++
		}
	}
	if alone != 1 {
		t.Errorf("%d objects are not shared, want the one that differs", alone)
	}
	objects := len(first.Objects())
	for n := range 20 {
		render(n)
	}
	for range 1000 {
		if runtime.GC(); countObjects(r.store) <= objects+3 {
			break
		}
		time.Sleep(time.Millisecond) // cleanups run beside the collector
	}
	if n := countObjects(r.store); n > objects+3 {
		t.Errorf("%d objects are kept, want those of the four bundles in use: at most %d", n, objects+3)
	}
	runtime.KeepAlive(first)
	runtime.KeepAlive(second)
}

// The cache is bounded, gives up what was not used for longest, and keeps failures.
func TestBundles(t *testing.T) {
	ctx := context.Background()
	b := newBundles(2)
	rendered := map[string]int{}
	boom := errors.New("boom")
	get := func(version string) error {
		//nolint:contextcheck // a rendering outlives its first caller
		_, err := b.startRendering("", key{version: version}, func(context.Context, func()) (*Bundle, error) {
			rendered[version]++
			if version == "broken" {
				return nil, boom
			}
			return &Bundle{Version: version}, nil
		}).awaitBundle(ctx)
		return err
	}
	for _, version := range []string{"a", "b", "a", "c", "a", "b"} {
		if err := get(version); err != nil {
			t.Fatal(err)
		}
	}
	if rendered["a"] != 1 || rendered["b"] != 2 || rendered["c"] != 1 {
		t.Errorf("rendered %v, want b again only: a was used in between", rendered)
	}
	for range 2 {
		if err := get("broken"); !errors.Is(err, boom) {
			t.Errorf("the failure is %v", err)
		}
	}
	if rendered["broken"] != 1 {
		t.Errorf("the same content failed %d times", rendered["broken"])
	}
	if s := b.readStats(); s.Bundles != 2 {
		t.Errorf("%d bundles are kept, want 2", s.Bundles)
	}
}

// Who waits for another's rendering may stop waiting; the rendering goes on.
func TestBundlesWait(t *testing.T) {
	b := newBundles(0)
	started, finish := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := b.startRendering("", key{}, func(context.Context, func()) (*Bundle, error) {
			close(started)
			<-finish
			return &Bundle{}, nil
		}).awaitBundle(context.Background())
		done <- err
	}()
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.startRendering("", key{}, nil).awaitBundle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get: %v, want the deadline of its caller", err)
	}
	close(finish)
	if err := <-done; err != nil {
		t.Errorf("the first caller: %v", err)
	}
	if bundle, err := b.startRendering("", key{}, nil).awaitBundle(context.Background()); err != nil || bundle == nil {
		t.Errorf("get after it: %v", err)
	}
}

func countObjects(s *objectStore) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHash)
}

// TestErrorsOfTheMachine holds that an error of the machine, such as a full disk, is no result for later requests, and that an error of the content is.
func TestErrorsOfTheMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		err        error
		renderings int
	}{
		"of the machine": {newError(api.ReasonRenderFailed, "cannot make a directory: %w", &fs.PathError{Op: "mkdir", Path: "/tmp/a", Err: syscall.ENOSPC}), 2},
		"of the content": {newError(api.ReasonInvalidSpec, "spec.config is odd"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundles(0)
			renderings := 0
			for range 2 {
				_, err := b.startRendering("team", key{}, func(context.Context, func()) (*Bundle, error) {
					renderings++
					return nil, tc.err
				}).awaitBundle(t.Context())
				if !errors.Is(err, tc.err) {
					t.Errorf("the error is %v", err)
				}
			}
			if renderings != tc.renderings {
				t.Errorf("there are %d renderings, want %d", renderings, tc.renderings)
			}
			if kept := b.readStats().Bundles; b.cost != kept*entryBytes {
				t.Errorf("%d entries cost %d bytes", kept, b.cost)
			}
		})
	}
}

// TestLongQueueKeepsBundles holds that a cache that is smaller than the queue keeps the bundle that was rendered last, until its caller asks again.
func TestLongQueueKeepsBundles(t *testing.T) {
	b := newBundles(4)
	var entries []*entry
	for i := range 10 {
		e, _ := b.claimEntry("fleet", key{version: strconv.Itoa(i)})
		entries = append(entries, e)
	}
	for _, e := range entries {
		b.settleEntry(e, &Bundle{}, nil)
		if again, isNew := b.claimEntry("fleet", e.key); isNew || again != e {
			t.Errorf("bundle %s has to be rendered again", e.key.version)
		}
	}
	if kept := b.readStats().Bundles; kept != 4 {
		t.Errorf("the cache keeps %d bundles, want 4", kept)
	}
}
