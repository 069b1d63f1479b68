// Copyright Contributors to the Open Cluster Management project

package memoryspoke

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
)

// renderServing renders a KnativeServing with a value in the configuration.
func renderServing(t *testing.T, r *render.Renderer, value string) *render.Bundle {
	t.Helper()
	in, err := render.Decode(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": "edge", "namespace": "team"},
		"spec": map[string]any{
			"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
			"config": map[string]any{"deployment": map[string]any{"progress-deadline": value}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Render(t.Context(), in, render.DefaultOptions(api.ModeDirect))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDirectDelivery holds that direct delivery installs, rests, and edits one object of an installation.
func TestDirectDelivery(t *testing.T) {
	r, err := render.New(render.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	var mu sync.Mutex
	var written []string
	watchers := &played.Watchers[Write]{}
	watchers.AddWatcher(func(w Write) {
		mu.Lock()
		defer mu.Unlock()
		written = append(written, w.Resource.Resource+"/"+w.Name)
	})
	s := Start("edge", watchers)
	t.Cleanup(s.Close)
	httpClient, err := rest.HTTPClientFor(&rest.Config{Host: s.URL, BearerToken: s.Token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan struct{}, 1)
	c, err := clustercache.Connect(&rest.Config{Host: s.URL, QPS: -1}, httpClient, clustercache.Options{Changed: func(api.Component) {
		select {
		case events <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	i := direct.NewInstallation(c, inventory.Owner{Component: api.Serving, Hub: "hub", Name: types.NamespacedName{Namespace: "team", Name: "edge"}}, clock.RealClock{})
	// sync returns the writes until the installation is complete.
	sync := func(b *render.Bundle) []string {
		t.Helper()
		for {
			out, err := i.Sync(t.Context(), b, direct.SyncOptions{Revision: "r"})
			if err != nil || len(out.Observation.Failed) > 0 {
				t.Fatalf("the delivery ends with %v and %+v", err, out.Observation.Failed)
			}
			if kept := (&delivery.Kept{Workloads: b.Workloads, Jobs: b.Jobs, Observation: out.Observation}); out.Observation.Waiting == "" && len(kept.NotReady()) == 0 {
				break
			}
			<-events
		}
		mu.Lock()
		defer mu.Unlock()
		all := written
		written = nil
		return all
	}
	first, second := renderServing(t, r, "601s"), renderServing(t, r, "602s")
	if all := sync(first); len(all) < len(first.Objects()) {
		t.Errorf("the installation of %d objects makes %d writes", len(first.Objects()), len(all))
	}
	sync(first) // the record on the cluster follows the first complete installation
	if all := sync(first); len(all) > 0 {
		t.Errorf("at rest the writes are %q", all)
	}
	want := []string{"configmaps/knativeserving-edge-root-owner", "configmaps/config-deployment", "configmaps/knativeserving-edge-root-owner"}
	if diff := cmp.Diff(want, sync(second)); diff != "" {
		t.Errorf("the writes of an edit (-want +got):\n%s", diff)
	}
}
