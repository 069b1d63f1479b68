// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// footprintServer tells the test binary to be the API server of BenchmarkFootprint.
const footprintServer = "KNATIVE_ADDON_FOOTPRINT_SERVER"

// realBundle is Serving with Kourier, as clusters get it.
func realBundle(tb testing.TB) *render.Bundle {
	tb.Helper()
	renderer, err := render.New(render.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = renderer.Close() })
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": "a", "namespace": "b"},
		"spec": map[string]any{"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}}},
	}}
	in, err := render.Decode(config)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := renderer.Render(tb.Context(), in, render.DefaultOptions(api.ModeDirect))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestFootprintServer is the API server of BenchmarkFootprint, in a process of its own: it serves until its input ends.
func TestFootprintServer(t *testing.T) {
	if os.Getenv(footprintServer) == "" {
		t.Skip("BenchmarkFootprint runs it")
	}
	lists := map[string]map[string]any{}
	for _, it := range realBundle(t).Objects() {
		o := it.DeepCopy()
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[api.ComponentLabel] = string(api.Serving)
		o.SetLabels(labels)
		fields, err := json.Marshal(owned(o.Object))
		if err != nil {
			t.Fatal(err)
		}
		metadata, _ := o.Object["metadata"].(map[string]any)
		maps.Copy(metadata, map[string]any{
			"uid": "3f0c1c52-5c2a-4a0e-8c3c-0d1f0a2f6a11", "resourceVersion": "1000", "generation": int64(1),
			"managedFields": []any{map[string]any{
				"manager": FieldManager, "operation": "Apply", "apiVersion": o.GetAPIVersion(), "time": "2026-01-01T00:00:00Z",
				"fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(fields),
			}},
		})
		gvr := it.Resource
		object, kind := map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}, "PartialObjectMetadataList"
		if needsStatus(gvr) {
			object, kind = o.Object, "List"
		}
		url := strings.ReplaceAll("/apis/"+gvr.Group+"/"+gvr.Version+"/", "/apis//", "/api/")
		if o.GetNamespace() != "" {
			url += "namespaces/" + o.GetNamespace() + "/"
		}
		url += gvr.Resource
		if lists[url] == nil {
			lists[url] = map[string]any{"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"resourceVersion": "1000"}, "items": []any{}}
		}
		list, _ := lists[url]["items"].([]any)
		lists[url]["items"] = append(list, object)
	}
	answers := map[string][]byte{}
	for url, list := range lists {
		var err error
		if answers[url], err = json.Marshal(list); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			_, _ = w.Write(answers[r.URL.Path])
			return
		}
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1001"}}}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	fmt.Println(server.URL) // the parent reads it
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.CloseClientConnections()
}

// owned is what the managed fields of an object look like that was applied.
func owned(o any) map[string]any {
	out := map[string]any{}
	switch o := o.(type) {
	case map[string]any:
		for k, v := range o {
			out["f:"+k] = owned(v)
		}
	case []any:
		for _, v := range o {
			if m, ok := v.(map[string]any); ok && m["name"] != nil {
				out[fmt.Sprintf("k:{\"name\":%q}", m["name"])] = owned(v)
			}
		}
	}
	return out
}

// startFootprintServer returns the address of an API server.
func startFootprintServer(b *testing.B) string {
	b.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), self, "-test.run=^TestFootprintServer$")
	cmd.Env = append(os.Environ(), footprintServer+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "https://") {
		b.Fatalf("the server says %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// BenchmarkFootprint measures what a cluster costs that is watched or polled, with all that Serving and Kourier have; take
// -benchtime=200x. A poll is of all places.
func BenchmarkFootprint(b *testing.B) {
	places := map[Place]bool{}
	for _, o := range realBundle(b).Objects() {
		places[Place{o.Resource, o.GetNamespace()}] = true
	}
	f := &footprint{host: startFootprintServer(b), places: slices.Collect(maps.Keys(places))}
	b.Run("watched", func(b *testing.B) { f.measure(b, nil, "1001") }) // as far as the server's bookmark
	b.Run("polled", func(b *testing.B) { f.measure(b, NewWatchLimit(0), "1000") })
	b.Run("poll", func(b *testing.B) {
		c := f.cluster(b, NewWatchLimit(0))
		defer c.Close()
		b.ReportAllocs()
		for b.Loop() {
			g := errgroup.Group{}
			for _, at := range f.places {
				g.Go(func() error {
					_, _, err := c.listObjects(b.Context(), at, metav1.ListOptions{}, c.views.started[at])
					return err
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

type footprint struct {
	host        string
	places      []Place
	connections atomic.Int32
}

// measure connects to a cluster after the other, and waits until all are seen as far as a version.
func (f *footprint) measure(b *testing.B, limit *WatchLimit, version string) {
	b.Helper()
	f.connections.Store(0)
	memory, goroutines := heap(), runtime.NumGoroutine()
	var all []*Cluster
	for b.Loop() {
		c := f.cluster(b, limit)
		all = append(all, c)
		for _, at := range f.places {
			for c.views.started[at].IsBehind(version) {
				time.Sleep(time.Millisecond)
			}
		}
	}
	per := func(n float64) float64 { return n / float64(len(all)) }
	b.ReportMetric(per(heap()-memory), "kB-heap/cluster")
	b.ReportMetric(per(float64(runtime.NumGoroutine()-goroutines)), "goroutines/cluster")
	b.ReportMetric(per(float64(f.connections.Load())), "connections/cluster")
	b.ReportMetric(float64(len(f.places)), "places/cluster")
	for _, c := range all {
		c.Close()
	}
}

// heap is what is in use, in kB, with the stacks of goroutines.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc+m.StackInuse) / 1024
}

// cluster connects to a cluster and sees everything.
func (f *footprint) cluster(b *testing.B, limit *WatchLimit) *Cluster {
	b.Helper()
	transport := utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it is this binary
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			f.connections.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	c, err := Connect(&rest.Config{Host: f.host, QPS: -1}, &http.Client{Transport: transport}, Options{
		Limit: limit, PollInterval: time.Hour, Changed: func(api.Component) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, at := range f.places {
		if _, err := c.View(b.Context(), at); err != nil {
			b.Fatal(err)
		}
	}
	return c
}
