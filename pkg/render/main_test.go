// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// shared is the Renderer that tests share: the archive is unpacked once. The namespace of resource is trusted.
var shared *Renderer

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	// The tests are about the archive that the program is built with.
	if err := os.Unsetenv("KO_DATA_PATH"); err != nil {
		return 0, err
	}
	var err error
	if shared, err = New(Config{Trust: trust.Policy{Namespaces: []string{"fleet"}}}); err != nil {
		return 0, err
	}
	flag.Parse()
	if *benchTable {
		return 0, errors.Join(writeBenchTable(os.Stdout), shared.Close())
	}
	return m.Run(), shared.Close()
}

// skipLongTest skips a test that renders hundreds of times without concurrency in the run with -short: make test-unit runs all packages
// with -short and the race detector, which makes such a test five times slower, and then this package without both.
func skipLongTest(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test without concurrency; run go test without -short")
	}
}

// resource is a CR of the component with a spec in YAML.
func resource(tb testing.TB, component api.Component, spec string) *unstructured.Unstructured {
	tb.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("operator.knative.dev/v1beta1")
	u.SetKind(component.Kind())
	u.SetName("knative")
	u.SetNamespace("fleet")
	var fields map[string]any
	if err := yaml.UnmarshalStrict([]byte(spec), &fields); err != nil {
		tb.Fatalf("cannot read the test's spec: %v\n%s", err, spec)
	}
	if fields != nil {
		u.Object["spec"] = fields
	}
	return u
}

// install is what Decode makes of a CR of the component with a spec in YAML.
func install(tb testing.TB, component api.Component, spec string) *Install {
	tb.Helper()
	in, err := Decode(resource(tb, component, spec))
	if err != nil {
		tb.Fatalf("cannot decode: %v\n%s", err, spec)
	}
	return in
}

// installIn is the same in an install namespace.
func installIn(tb testing.TB, namespace string, component api.Component, spec string) *Install {
	tb.Helper()
	u := resource(tb, component, spec)
	u.SetAnnotations(map[string]string{api.InstallNamespaceAnnotation: namespace})
	in, err := Decode(u)
	if err != nil {
		tb.Fatalf("cannot decode: %v\n%s", err, spec)
	}
	return in
}

// bundle is the bundle of a CR of the component with a spec in YAML, for a ManifestWork with default options.
func bundle(tb testing.TB, component api.Component, spec string) *Bundle {
	tb.Helper()
	b, err := shared.Render(context.Background(), install(tb, component, spec), DefaultOptions(api.ModeManifestWork))
	if err != nil {
		tb.Fatalf("cannot render: %v\n%s", err, spec)
	}
	return b
}

// find is an object of a bundle, or nil.
func find(b *Bundle, kind, name string) *Object {
	for _, o := range b.Objects() {
		if o.GetKind() == kind && o.GetName() == name {
			return &o
		}
	}
	return nil
}

// object is an object that the bundle must have.
func object(tb testing.TB, b *Bundle, kind, name string) *Object {
	tb.Helper()
	o := find(b, kind, name)
	if o == nil {
		tb.Fatalf("the bundle has no %s %q", kind, name)
	}
	return o
}

// at is the value at a path of an object; a number is an index of a list.
func at(tb testing.TB, value any, path ...any) any {
	tb.Helper()
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, ok := value.(map[string]any)
			if !ok {
				tb.Fatalf("no object at %v of %v", key, path)
			}
			value = m[key]
		case int:
			l, ok := value.([]any)
			if !ok || key >= len(l) {
				tb.Fatalf("no list with index %d at %v", key, path)
			}
			value = l[key]
		}
	}
	return value
}

const kourier = "ingress: {kourier: {enabled: true}}\n"

// trustAll is the policy of tests that are not about trust.
func trustAll() trust.Policy { return trust.Policy{Namespaces: []string{trust.AnyNamespace}} }
