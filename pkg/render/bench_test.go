// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	goruntime "runtime"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/operator/pkg/apis/operator/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

var benchTable = flag.Bool("bench-table", false, "print what clusters cost here and with the operator's functions")

// BenchmarkRenderCached is what a cluster costs whose content is known.
func BenchmarkRenderCached(b *testing.B) {
	for component, spec := range map[api.Component]string{api.Serving: kourier, api.Eventing: "{}"} {
		b.Run(string(component), func(b *testing.B) {
			in, options := install(b, component, spec), DefaultOptions(api.ModeManifestWork)
			if _, err := shared.Render(context.Background(), in, options); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := shared.Render(context.Background(), in, options); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDecode is what it costs to read a CR.
func BenchmarkDecode(b *testing.B) {
	u := resource(b, api.Serving, kourier+"config: {autoscaler: {a: b}, network: {c: d}}\nhigh-availability: {replicas: 3}")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(u); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRender is what new content costs.
func BenchmarkRender(b *testing.B) {
	for component, spec := range map[api.Component]string{api.Serving: kourier, api.Eventing: "{}"} {
		b.Run(string(component), func(b *testing.B) {
			j := job{install: install(b, component, spec), version: "1.23.0", options: DefaultOptions(api.ModeManifestWork)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := shared.renderJob(context.Background(), j); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOperator is what the operator's functions cost for the same content.
func BenchmarkOperator(b *testing.B) {
	for component, spec := range map[api.Component]string{api.Serving: kourier, api.Eventing: "{}"} {
		b.Run(string(component), func(b *testing.B) {
			u := resource(b, component, spec)
			b.ReportAllocs()
			for b.Loop() {
				operatorObjects(b, shared.catalog.dir, typed(b, u, component.InstallNamespace()))
			}
		})
	}
}

// A cluster whose content is known costs next to nothing, whatever the bundle weighs.
func TestCachedRenderAllocates(t *testing.T) {
	in, options := install(t, api.Eventing, "{}"), DefaultOptions(api.ModeManifestWork)
	render := func() {
		if _, err := shared.Render(context.Background(), in, options); err != nil {
			t.Error(err)
		}
	}
	render()
	if n := testing.AllocsPerRun(100, render); n > 8 {
		t.Errorf("a cached Render makes %.0f allocations, want at most 8", n)
	}
}

// writeBenchTable writes what clusters cost in one run on this machine: here, and with the operator's functions called per
// cluster, as its reconcilers do. Both have read the release files before.
func writeBenchTable(w io.Writer) error {
	if err := errors.Join(renderOurs(benchResources(1, false)), renderTheirs(benchResources(1, false))); err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "Serving with Kourier 1.23\tours\t\toperator\t\ttimes\t")
	fmt.Fprintln(out, "\ttime\tallocated\ttime\tallocated\tfaster\t")
	for _, row := range []struct {
		name     string
		clusters int
		distinct bool
	}{
		{"1 cluster", 1, false},
		{"100 clusters, one CR", 100, false},
		{"1,000 clusters, one CR", 1000, false},
		{"1,000 clusters, 1,000 CRs that differ in clusterProfileRef", 1000, true},
	} {
		list := benchResources(row.clusters, row.distinct)
		ours, err := measure(func() error { return renderOurs(list) })
		if err != nil {
			return err
		}
		theirs, err := measure(func() error { return renderTheirs(list) })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%.1f\t\n", row.name, ours.elapsed.Round(10*time.Microsecond), megabytes(ours.allocated),
			theirs.elapsed.Round(time.Millisecond), megabytes(theirs.allocated), float64(theirs.elapsed)/float64(ours.elapsed))
	}
	return out.Flush()
}

// benchResources are the CRs of clusters: the same one for all, or one each that differs in where it goes.
func benchResources(clusters int, distinct bool) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for n := range clusters {
		spec := map[string]any{"ingress": map[string]any{"kourier": map[string]any{"enabled": true}}}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetAPIVersion("operator.knative.dev/v1beta1")
		u.SetKind("KnativeServing")
		u.SetName("knative-serving")
		if distinct {
			u.SetName(fmt.Sprintf("cluster-%d", n))
			spec["clusterProfileRef"] = map[string]any{"name": u.GetName(), "namespace": "fleet"}
		}
		out = append(out, u)
	}
	return out
}

// renderOurs decodes and renders every CR with a Renderer that knows nothing yet.
func renderOurs(list []*unstructured.Unstructured) error {
	r, err := New(Config{ReleasesDir: shared.catalog.dir})
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing is written
	for _, u := range list {
		in, err := Decode(u)
		if err != nil {
			return err
		}
		if _, err := r.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork)); err != nil {
			return err
		}
	}
	return nil
}

// renderTheirs renders every CR with the operator's functions.
func renderTheirs(list []*unstructured.Unstructured) error {
	for _, u := range list {
		ks := &v1beta1.KnativeServing{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, ks); err != nil {
			return err
		}
		ks.Namespace = "knative-serving"
		if _, err := operatorRender(shared.catalog.dir, ks); err != nil {
			return err
		}
	}
	return nil
}

type measurement struct {
	elapsed   time.Duration
	allocated uint64
}

func measure(f func() error) (measurement, error) {
	var before, after goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	start := time.Now() //nolint:forbidigo // it measures
	err := f()
	elapsed := time.Since(start) //nolint:forbidigo // it measures
	goruntime.ReadMemStats(&after)
	return measurement{elapsed, after.TotalAlloc - before.TotalAlloc}, err
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
