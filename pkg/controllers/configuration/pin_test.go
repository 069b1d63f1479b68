// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

type newest struct {
	version string
	err     error
}

func (n newest) ResolveVersion(api.Component, string) (string, error) { return n.version, n.err }

func newConfigClient(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{api.Serving.Resource(): "KnativeServingList"}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
}

func newIndexer(t *testing.T, indexers cache.Indexers, objects ...any) cache.Indexer {
	t.Helper()
	i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := i.AddIndexers(indexers); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := i.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// newReferences refers to the spec with the hash as the one that the clusters of a Placement should have.
func newReferences(t *testing.T, hash string) *revision.References {
	t.Helper()
	d := &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}
	d.Status.InstallProgressions = []addonv1beta1.InstallProgression{{ConfigReferences: []addonv1beta1.InstallConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig: &addonv1beta1.ConfigSpecHash{
			ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}, SpecHash: hash,
		},
	}}}}
	return &revision.References{
		AddOns:      newIndexer(t, cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig}),
		Definitions: addonlisters.NewClusterManagementAddOnLister(newIndexer(t, nil, d)),
	}
}

// recordedWith is the revision of the spec that the object has, pinned at the version.
func recordedWith(t *testing.T, object *unstructured.Unstructured, version string) *appsv1.ControllerRevision {
	t.Helper()
	pinned := object.DeepCopy()
	pinned.SetAnnotations(map[string]string{api.PinnedVersionAnnotation: version})
	r, err := revision.New(api.Serving, pinned, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func servingWith(spec, annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": "fleet", "name": "default", "resourceVersion": "1", "annotations": annotations}, "spec": spec,
	}}
}

// pinReconciler serves the object and has a revision of its spec, pinned at the version unless that is empty, to which OCM refers by
// the hash.
func pinReconciler(t *testing.T, object *unstructured.Unstructured, recorded, desiredHash string) (*Reconciler, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	client, revisions := newConfigClient(object), newIndexer(t, revision.Indexers())
	if recorded != "" {
		if err := revisions.Add(recordedWith(t, object, recorded)); err != nil {
			t.Fatal(err)
		}
	}
	return &Reconciler{
		Recorder: Recorder{
			Kind: api.Serving, Configs: cache.NewGenericLister(newIndexer(t, nil, object), api.Serving.Resource().GroupResource()),
			Revisions: revisions, References: newReferences(t, desiredHash),
		},
		Component: api.Serving, ConfigClient: client, Operator: func() string { return "" },
	}, client
}

func TestPin(t *testing.T) {
	pinned := map[string]any{api.PinnedVersionAnnotation: "1.22.1"}
	errNone := errors.New("no versions")
	for name, tc := range map[string]struct {
		reason  string
		object  *unstructured.Unstructured
		newest  newest
		want    string
		writes  int
		wantErr error
		other   string // who else takes care of the resource
		before  string // the pin of the spec's revision
		left    bool   // to another manager
	}{
		"empty version":          {reason: "It resolves once.", object: servingWith(nil, nil), newest: newest{version: "1.23.0"}, want: "1.23.0", writes: 1},
		"pinned version":         {reason: "A newer add-on changes nothing.", object: servingWith(nil, pinned), newest: newest{version: "1.23.0"}, want: "1.22.1"},
		"named version":          {reason: "The user decides.", object: servingWith(map[string]any{"version": "1.21"}, nil)},
		"latest":                 {reason: "The opt-in to follow is not pinned.", object: servingWith(map[string]any{"version": "latest"}, nil)},
		"named after a pin":      {reason: "The pin is void.", object: servingWith(map[string]any{"version": "1.21"}, pinned), writes: 1},
		"manifests of users":     {reason: "The user's own manifests have no bundled version.", object: servingWith(map[string]any{"manifests": []any{map[string]any{}}}, nil)},
		"the Knative Operator's": {reason: "It is left alone.", object: servingWith(nil, nil), newest: newest{version: "1.23.0"}, other: "Deployment"},
		"another manager's":      {reason: "It is left alone.", object: servingWith(nil, nil), newest: newest{version: "1.23.0"}, left: true},
		"pinned before":          {reason: "The spec means what it meant.", object: servingWith(nil, nil), newest: newest{version: "1.23.0"}, before: "1.22.1", want: "1.22.1", writes: 1},
		"pin beats the record":   {reason: "The user decides.", object: servingWith(nil, pinned), before: "1.21.2", want: "1.22.1"},
		"nothing bundled":        {reason: "No version, no pin.", object: servingWith(nil, nil), newest: newest{err: errNone}, wantErr: errNone},
	} {
		t.Run(name, func(t *testing.T) {
			hash, err := revision.Hash(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			r, client := pinReconciler(t, tc.object, tc.before, hash)
			r.Versions, r.Operator = tc.newest, func() string { return tc.other }
			r.Excludes = func(*unstructured.Unstructured) bool { return tc.left }
			_, err = r.Reconcile(t.Context(), reconcile.Request{NamespacedName: cache.MetaObjectToName(tc.object).AsNamespacedName()})
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error is %v, want %v", err, tc.wantErr)
			}
			if got := len(client.Actions()); got != tc.writes {
				t.Errorf("%s %d writes, want %d: %v", tc.reason, got, tc.writes, client.Actions())
			}
			after, err := client.Tracker().Get(api.Serving.Resource(), "fleet", "default")
			if err != nil {
				t.Fatal(err)
			}
			if got := after.(*unstructured.Unstructured).GetAnnotations()[api.PinnedVersionAnnotation]; got != tc.want { //nolint:forcetypeassert // it is one
				t.Errorf("%s The pin is %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestRecordedPin holds that a spec keeps the pin of its revision only while a cluster should have the spec, or has the version.
func TestRecordedPin(t *testing.T) {
	object := servingWith(map[string]any{"version": ""}, nil)
	hash, err := revision.Hash(object)
	if err != nil {
		t.Fatal(err)
	}
	for reason, tc := range map[string]struct{ recorded, desired, want string }{
		"a cluster should have the spec":  {"1.22.1", hash, "1.22.1"},
		"no cluster should have the spec": {"1.22.1", "other", ""},
		"the spec was never recorded":     {"", hash, ""},
	} {
		r, _ := pinReconciler(t, object, tc.recorded, tc.desired)
		if pin, err := r.findRecordedPin(object); err != nil || pin != tc.want {
			t.Errorf("%s: the pin is %q (%v), want %q", reason, pin, err, tc.want)
		}
	}
	for delivered, want := range map[string]string{"1.22.1": "1.22.1", "1.23.0": ""} {
		direct := object.DeepCopy()
		direct.Object["status"] = map[string]any{"version": delivered}
		r, _ := pinReconciler(t, object, "1.22.1", "other")
		if pin, err := r.findRecordedPin(direct); err != nil || pin != want {
			t.Errorf("of a cluster that has version %s, the pin is %q (%v), want %q", delivered, pin, err, want)
		}
	}
	r, _ := pinReconciler(t, object, "1.22.1", hash)
	unpinned := recordedWith(t, object, "")
	delete(unpinned.Annotations, api.PinnedVersionAnnotation)
	if err := r.Revisions.Update(unpinned); err != nil {
		t.Fatal(err)
	}
	if pin, err := r.findRecordedPin(object); err != nil || pin != "" {
		t.Errorf("of a revision without a pin, the pin is %q (%v)", pin, err)
	}
}
