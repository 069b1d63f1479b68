// Copyright Contributors to the Open Cluster Management project

package pin

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
)

type newest struct {
	version string
	err     error
}

func (n newest) ResolveVersion(api.Component, string) (string, error) { return n.version, n.err }

// recorded is what a spec was pinned to before.
type recorded string

func (p recorded) Pin(*unstructured.Unstructured) (string, error) { return string(p), nil }

func serving(spec, annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": "fleet", "name": "default", "annotations": annotations}, "spec": spec,
	}}
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
		before  recorded
	}{
		"empty version":          {reason: "It resolves once.", object: serving(nil, nil), newest: newest{version: "1.23.0"}, want: "1.23.0", writes: 1},
		"pinned version":         {reason: "A newer add-on changes nothing.", object: serving(nil, pinned), newest: newest{version: "1.23.0"}, want: "1.22.1"},
		"named version":          {reason: "The user decides.", object: serving(map[string]any{"version": "1.21"}, nil)},
		"latest":                 {reason: "The opt-in to follow is not pinned.", object: serving(map[string]any{"version": "latest"}, nil)},
		"named after a pin":      {reason: "The pin is void.", object: serving(map[string]any{"version": "1.21"}, pinned), writes: 1},
		"manifests of users":     {reason: "The user's own manifests have no bundled version.", object: serving(map[string]any{"manifests": []any{map[string]any{}}}, nil)},
		"the Knative Operator's": {reason: "It is left alone.", object: serving(nil, nil), newest: newest{version: "1.23.0"}, other: "Deployment"},
		"pinned before":          {reason: "The spec means what it meant.", object: serving(nil, nil), newest: newest{version: "1.23.0"}, before: "1.22.1", want: "1.22.1", writes: 1},
		"pin beats the record":   {reason: "The user decides.", object: serving(nil, pinned), before: "1.21.2", want: "1.22.1"},
		"nothing bundled":        {reason: "No version, no pin.", object: serving(nil, nil), newest: newest{err: errNone}, wantErr: errNone},
	} {
		t.Run(name, func(t *testing.T) {
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := indexer.Add(tc.object); err != nil {
				t.Fatal(err)
			}
			kinds := map[schema.GroupVersionResource]string{api.Serving.Resource(): "KnativeServingList"}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, tc.object)
			r := &Reconciler{
				Component: api.Serving, Lister: cache.NewGenericLister(indexer, api.Serving.Resource().GroupResource()),
				Client: client, Versions: tc.newest, Revisions: tc.before, Operator: func() string { return tc.other },
			}
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: cache.MetaObjectToName(tc.object).AsNamespacedName()})
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
