// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// realBundles renders a KnativeServing of the given version for a cluster that has the installed one, from caches as the
// manager has them.
func realBundles(tb testing.TB, version, installed string) (*RenderedBundles, *addonv1beta1.ManagedClusterAddOn, cache.Indexer) {
	tb.Helper()
	return bundlesOf(tb, map[string]any{"version": version, "ingress": map[string]any{"kourier": map[string]any{"enabled": true}}}, installed)
}

// bundlesOf renders a KnativeServing with the spec.
func bundlesOf(tb testing.TB, spec map[string]any, installed string) (*RenderedBundles, *addonv1beta1.ManagedClusterAddOn, cache.Indexer) {
	tb.Helper()
	renderer, err := render.New(render.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = renderer.Close() })
	namespaced := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	configs, works := cache.NewIndexer(cache.MetaNamespaceKeyFunc, namespaced), cache.NewIndexer(cache.MetaNamespaceKeyFunc, namespaced)
	cr := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": "fleet", "name": "default", "resourceVersion": "1"},
		"spec":     spec,
	}}
	w := foundation()
	w.Annotations[api.VersionAnnotation] = installed
	for indexer, o := range map[cache.Indexer]any{configs: cr, works: w} {
		if err := indexer.Add(o); err != nil {
			tb.Fatal(err)
		}
	}
	a := testAddOn()
	a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig: &addonv1beta1.ConfigSpecHash{
			ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"},
		},
	}}
	a.Annotations = map[string]string{api.GrantedConfigsAnnotation: "knativeservings." + api.Group + "/fleet/default"}
	lister := cache.NewGenericLister(configs, schema.GroupResource{Group: api.Group, Resource: "knativeservings"})
	source := revision.NewSource(map[api.Component]cache.GenericLister{api.Serving: lister}, cache.NewIndexer(cache.MetaNamespaceKeyFunc, revision.Indexers()))
	return &RenderedBundles{
		ConfigBundles: NewConfigBundles(source, renderer, render.DefaultOptions(api.ModeManifestWork)),
		Foundations:   worklisters.NewManifestWorkLister(works), Payloads: worklisters.NewManifestWorkLister(works),
	}, a, works
}

func TestBundleRefusesWideSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		version, installed, running string
		want                        render.Reason
	}{
		"first installation":              {"1.21", "", "", ""},
		"one minor up":                    {"1.23", "1.22.1", "1.22.1", ""},
		"one minor down":                  {"1.22", "1.23.0", "1.23.0", ""},
		"two minors up":                   {"1.23", "1.21.3", "1.21.3", api.ReasonNotEligible},
		"two minors down":                 {"1.21", "1.23.0", "1.23.0", api.ReasonNotEligible},
		"over a version that did not run": {"1.23", "1.22.1", "1.21.3", api.ReasonNotEligible},
		"version not bundled":             {"1.7", "1.23.0", "1.23.0", api.ReasonUnknownVersion},
	} {
		t.Run(name, func(t *testing.T) {
			bundles, a, works := realBundles(t, tc.version, tc.installed)
			w := foundation()
			w.Annotations[api.VersionAnnotation], w.Annotations[api.RunningVersionAnnotation] = tc.installed, tc.running
			if err := works.Update(w); err != nil {
				t.Fatal(err)
			}
			b, err := awaitRendered(func() (*render.Bundle, error) { return bundles.Bundle(t.Context(), a) })
			if got := render.ReasonOf(err); got != tc.want {
				t.Errorf("reason is %q (%v), want %q", got, err, tc.want)
			}
			if tc.want == "" && (b == nil || len(b.Payload) == 0) {
				t.Error("there is no bundle")
			}
		})
	}
}

// TestBundleWithoutFoundation holds that no version is skipped when a user has deleted the foundation, which records the versions.
func TestBundleWithoutFoundation(t *testing.T) {
	for name, replace := range map[string]func(works cache.Indexer) error{
		"no foundation": func(works cache.Indexer) error { return works.Delete(foundation()) },
		"a probe in place of the foundation": func(works cache.Indexer) error {
			w := foundation()
			w.Annotations = nil
			return works.Update(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bundles, a, works := realBundles(t, "1.23", "1.21.3")
			payload := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
				Namespace: "cluster1", Name: "addon-knative-serving-deploy-0", Labels: map[string]string{addonv1beta1.AddonLabelKey: "knative-serving"},
			}}
			payload.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"knative-serving","name":"knative-serving-bundle-abc"},"data":{"version":"1.21.3"}}`),
			}}}
			if err := errors.Join(works.Add(payload), replace(works)); err != nil {
				t.Fatal(err)
			}
			_, err := awaitRendered(func() (*render.Bundle, error) { return bundles.Bundle(t.Context(), a) })
			if got := render.ReasonOf(err); got != api.ReasonNotEligible {
				t.Errorf("reason is %q (%v)", got, err)
			}
		})
	}
}

// BenchmarkManifests measures the cost that each sync of a cluster has at least twice in addon-framework.
func BenchmarkManifests(b *testing.B) {
	bundles, a, works := realBundles(b, "1.23", "1.23.0")
	benchmarkManifests(b, bundles, a, works)
}

// BenchmarkManifestsWithValues is the same for a configuration that uses a label, a claim and a variable.
func BenchmarkManifestsWithValues(b *testing.B) {
	v := newValuesFixture(b)
	v.cluster("cluster1", "eu")
	benchmarkManifests(b, v.bundles, v.addOn("cluster1"), v.works)
}

func benchmarkManifests(b *testing.B, bundles *RenderedBundles, a *addonv1beta1.ManagedClusterAddOn, works cache.Indexer) {
	b.Helper()
	bundle, err := awaitRendered(func() (*render.Bundle, error) { return bundles.Bundle(b.Context(), a) })
	if err != nil {
		b.Fatal(err)
	}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster1", Name: manifestwork.FoundationName(api.Serving), Generation: 1,
		Annotations: map[string]string{api.DigestAnnotation: bundle.FoundationDigest, api.VersionAnnotation: bundle.Version},
	}}
	w.Status.Conditions = foundation().Status.Conditions
	for _, o := range []*workv1.ManifestWork{w, closedGate()} {
		if err := works.Update(o); err != nil {
			b.Fatal(err)
		}
	}
	agent := New(api.Serving, bundles, permitted, bundles.Source, Works{Foundations: bundles.Foundations, Payloads: bundles.Payloads})
	b.ReportAllocs()
	for b.Loop() {
		if objects, err := agent.Manifests(b.Context(), nil, a); err != nil || len(objects) == 0 {
			b.Fatalf("%d objects, %v", len(objects), err)
		}
	}
}
