// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// payloadOf is a payload as the framework writes it, made of the spec with the hash.
func payloadOf(name, hash string, manifests ...string) *workv1.ManifestWork {
	configs, err := json.Marshal(map[string]string{"knativeservings.operator.knative.dev/fleet/default": hash})
	if err != nil {
		panic(err)
	}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster1", Name: name, Labels: map[string]string{addonv1beta1.AddonLabelKey: "knative-serving"},
		Annotations: map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: string(configs)},
	}}
	for _, m := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return w
}

func configuredBy(hash string) *addonv1beta1.ManagedClusterAddOn {
	a := testAddOn()
	a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}, SpecHash: hash},
	}}
	a.Annotations = map[string]string{api.GrantedConfigsAnnotation: "knativeservings." + api.Group + "/fleet/default"}
	return a
}

const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`

// TestPausedManifests holds that a paused cluster keeps what it has to the byte, and that OCM never takes it for a cluster
// that has the new configuration.
func TestPausedManifests(t *testing.T) {
	leaving := payloadOf("addon-knative-serving-deploy-0", "h1", configMap)
	leaving.DeletionTimestamp = new(metav1.Now())
	unmarked := payloadOf("addon-knative-serving-deploy-0", "h1", configMap)
	unmarked.Annotations = nil
	for name, tc := range map[string]struct {
		works []*workv1.ManifestWork
		want  []string
		err   string
	}{
		"what is delivered": {
			works: []*workv1.ManifestWork{payloadOf("addon-knative-serving-deploy-1", "h1", strings.Replace(configMap, `"a"`, `"b"`, 1)), payloadOf("addon-knative-serving-deploy-0", "h1", configMap)},
			want:  []string{"a", "b"},
		},
		"a new configuration":     {works: []*workv1.ManifestWork{payloadOf("addon-knative-serving-deploy-0", "h0", configMap)}, err: "paused by somebody: cluster \"cluster1\" keeps its installation"},
		"one work of two":         {works: []*workv1.ManifestWork{payloadOf("a", "h1", configMap), payloadOf("b", "h0", configMap)}, err: "keeps its installation"},
		"a work without a mark":   {works: []*workv1.ManifestWork{unmarked}, err: "keeps its installation"},
		"nothing":                 {err: "paused by somebody: nothing is delivered"},
		"a work that goes":        {works: []*workv1.ManifestWork{leaving}, err: "nothing is delivered"},
		"an empty work":           {works: []*workv1.ManifestWork{payloadOf("a", "h1")}, err: "have no manifests"},
		"a work that is not JSON": {works: []*workv1.ManifestWork{payloadOf("a", "h1", "{")}, err: "cannot read ManifestWork"},
	} {
		t.Run(name, func(t *testing.T) {
			never := bundlesFunc(func() (*render.Bundle, error) { t.Error("it is rendered"); return testBundle() })
			objects, err := New(api.Serving, never, permitted, pausedBy("somebody"), works(t, tc.works...)).Manifests(t.Context(), nil, configuredBy("h1"))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error is %v, want one with %q", err, tc.err)
				}
				return
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.(*unstructured.Unstructured).GetName()) //nolint:forcetypeassert // it is one
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v, objects (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestDeliveredConfig(t *testing.T) {
	foreign := payloadOf("c", "h1")
	foreign.Annotations[workv1.ManifestConfigSpecHashAnnotationKey] = `{"addondeploymentconfigs.addon.open-cluster-management.io/n/a":"x"}`
	for name, tc := range map[string]struct {
		works []*workv1.ManifestWork
		want  string
	}{
		"one":           {[]*workv1.ManifestWork{payloadOf("a", "h1")}, "h1"},
		"two alike":     {[]*workv1.ManifestWork{payloadOf("a", "h1"), payloadOf("b", "h1")}, "h1"},
		"two different": {[]*workv1.ManifestWork{payloadOf("a", "h1"), payloadOf("b", "h2")}, ""},
		"of others":     {[]*workv1.ManifestWork{foreign}, ""},
		"none":          {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config, hash, ok := deliveredConfig(api.Serving, tc.works)
			if hash != tc.want || ok != (tc.want != "") || ok && config != (types.NamespacedName{Namespace: "fleet", Name: "default"}) {
				t.Errorf("it is %s with hash %q (%t), want %q", config, hash, ok, tc.want)
			}
		})
	}
}

// TestBundleOfTheRollout goes through a rollout: each cluster's bundle is that of its hash, and that of a paused cluster is
// what it has got.
func TestBundleOfTheRollout(t *testing.T) {
	bundles, a, _ := realBundles(t, "1.22", "1.22.0")
	configs, revisions := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, revision.Indexers())
	payloads := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	lister := cache.NewGenericLister(configs, api.Serving.Resource().GroupResource())
	bundles.Source = revision.NewSource(map[api.Component]cache.GenericLister{api.Serving: lister}, revisions)
	bundles.Payloads = worklisters.NewManifestWorkLister(payloads)
	var hashes []string
	for i, version := range []string{"1.22", "1.23"} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
			"metadata": map[string]any{"namespace": "fleet", "name": "default", "uid": "u"}, "spec": map[string]any{"version": version},
		}}
		r, err := revision.New(api.Serving, u, int64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, revision.HashOf(r))
		for indexer, o := range map[cache.Indexer]any{configs: u, revisions: r} {
			if err := indexer.Add(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(reason, hash, version string, paused bool) {
		t.Helper()
		a.Status.ConfigReferences[0].DesiredConfig.SpecHash = hash
		a.Annotations = map[string]string{api.GrantedConfigsAnnotation: "knativeservings." + api.Group + "/fleet/default"}
		if paused {
			a.Annotations[api.PausedAnnotation] = "true"
		}
		b, err := awaitRendered(func() (*render.Bundle, error) { return bundles.Bundle(t.Context(), a) })
		if err != nil || !strings.HasPrefix(b.Version, version) {
			t.Errorf("%s: bundle %+v, error %v", reason, b, err)
		}
	}
	want("before the wave", hashes[0], "1.22", false)
	want("in the wave", hashes[1], "1.23", false)
	want("paused with nothing delivered", hashes[1], "1.23", true)
	if err := payloads.Add(payloadOf("addon-knative-serving-deploy-0", hashes[0], configMap)); err != nil {
		t.Fatal(err)
	}
	want("paused before the wave", hashes[1], "1.22", true)
	if err := payloads.Update(payloadOf("addon-knative-serving-deploy-0", "unknown", configMap)); err != nil {
		t.Fatal(err)
	}
	want("paused with something unknown", hashes[1], "1.23", true)
}

// TestForgedPayload holds that the agent of a paused cluster, which may write payloads, learns nothing of other configurations.
func TestForgedPayload(t *testing.T) {
	bundles, a, _ := realBundles(t, "1.23", "1.23.0")
	configs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for namespace, token := range map[string]string{"fleet": "public", "team-b": "private"} {
		err := configs.Add(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
			"metadata": map[string]any{"namespace": namespace, "name": "default", "uid": namespace},
			"spec":     map[string]any{"version": "1.23", "config": map[string]any{"defaults": map[string]any{"token": token}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	bundles.Source = revision.NewSource(map[api.Component]cache.GenericLister{
		api.Serving: cache.NewGenericLister(configs, api.Serving.Resource().GroupResource()),
	}, cache.NewIndexer(cache.MetaNamespaceKeyFunc, revision.Indexers()))
	private, err := bundles.Source.At(api.Serving, types.NamespacedName{Namespace: "team-b", Name: "default"}, "")
	if err != nil || private == nil {
		t.Fatal(err)
	}
	payloads := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	bundles.Payloads = worklisters.NewManifestWorkLister(payloads)
	a.Annotations[api.PausedAnnotation] = "true"
	want, err := awaitRendered(func() (*render.Bundle, error) { return bundles.Bundle(t.Context(), a) })
	if err != nil {
		t.Fatal(err)
	}
	forged := payloadOf("addon-knative-serving-deploy-0", "h1", configMap)
	forged.Annotations[workv1.ManifestConfigSpecHashAnnotationKey] = `{"knativeservings.operator.knative.dev/team-b/default":"` + hashOf(t, configs, "team-b/default") + `"}`
	if err := payloads.Add(forged); err != nil {
		t.Fatal(err)
	}
	got, err := awaitRendered(func() (*render.Bundle, error) { return bundles.Bundle(t.Context(), a) })
	if err != nil || got.Digest != want.Digest {
		t.Errorf("the bundle is %v, error %v", got, err)
	}
}

func hashOf(t *testing.T, configs cache.Store, key string) string {
	t.Helper()
	o, _, err := configs.GetByKey(key)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := revision.Hash(o.(*unstructured.Unstructured)) //nolint:forcetypeassert // it is one
	if err != nil {
		t.Fatal(err)
	}
	return hash
}
