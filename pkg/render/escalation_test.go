// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"strings"
	"sync"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// restricted returns a Renderer that tests share and that does not trust the namespace of resource.
var restricted = sync.OnceValues(func() (*Renderer, error) {
	return New(Config{ReleasesDir: shared.catalog.dir, Trust: trust.Policy{
		Namespaces: []string{"knative-addon"}, ImageRegistries: []string{"mirror.example.com/knative/", "registry.example.com"},
	}})
})

func restrictedRenderer(tb testing.TB) *Renderer {
	tb.Helper()
	r, err := restricted()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// TestEscalations renders every known way to more than Knative: refused in a namespace that is not trusted, as before in one
// that is.
func TestEscalations(t *testing.T) {
	skipLongTest(t)
	r := restrictedRenderer(t)
	for group, cases := range map[string]map[string]escalation{
		"patches": patchEscalations(), "pods": podEscalations(), "objects": objectEscalations(), "fields": fieldEscalations(), "config": configEscalations(),
	} {
		for name, tc := range cases {
			t.Run(group+"/"+name, func(t *testing.T) {
				in := install(t, tc.component, tc.spec)
				_, err := r.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
				checkEscalation(t, err, tc.want...)
				if _, err := shared.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork)); err != nil && !tc.breaks {
					t.Errorf("a trusted namespace is refused: %v", err)
				}
			})
		}
	}
}

func checkEscalation(t *testing.T, err error, want ...string) {
	t.Helper()
	if ReasonOf(err) != api.ReasonEscalationNotPermitted {
		t.Fatalf("error is %v with reason %q, want reason %s", err, ReasonOf(err), api.ReasonEscalationNotPermitted)
	}
	for _, text := range append(want, "rendering.trustedNamespaces") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal does not say %q: %v", text, err)
		}
	}
}
