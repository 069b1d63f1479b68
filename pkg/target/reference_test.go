// Copyright Contributors to the Open Cluster Management project

package target

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

func TestReferenceOf(t *testing.T) {
	spec := func(spec any) *unstructured.Unstructured {
		return config("self", 1, func(c *unstructured.Unstructured) { c.Object["spec"] = spec })
	}
	for name, tc := range map[string]struct {
		reason string
		config *unstructured.Unstructured
		want   string
		ok     bool
	}{
		"a reference":                {reason: "It is read as it stands.", config: config("self", 1, refersTo("a", "b")), want: "a/b", ok: true},
		"no reference":               {reason: "The resource is a fleet's.", config: config("self", 1, refersToNothing)},
		"no spec":                    {reason: "The resource is a fleet's.", config: spec(nil)},
		"no name":                    {reason: "It leads nowhere.", config: spec(map[string]any{"clusterProfileRef": map[string]any{"namespace": "a"}})},
		"no namespace":               {reason: "It is one, and nobody permits it.", config: spec(map[string]any{"clusterProfileRef": map[string]any{"name": "b"}}), want: "/b", ok: true},
		"a reference that is a text": {reason: "No panic.", config: spec(map[string]any{"clusterProfileRef": "b"})},
		"a spec that is none":        {reason: "No panic.", config: spec("b")},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ReferenceOf(tc.config)
			if ok != tc.ok || ok && got.String() != tc.want {
				t.Errorf("%s It is %q, %v; want %q, %v", tc.reason, got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestReferring(t *testing.T) {
	indexer := indexerOf(t, []*unstructured.Unstructured{
		config("a", 1), config("b", 1, refersTo("other", clusterName)), config("c", 1, refersTo(team, "c2")), config("d", 1, refersToNothing),
	}, Indexers())
	if err := indexer.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "odd"}}); err != nil {
		t.Fatal(err)
	}
	find := func(by func(cache.Indexer, string) ([]*unstructured.Unstructured, error), value string) []string {
		t.Helper()
		found, err := by(indexer, value)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range found {
			names = append(names, c.GetName())
		}
		slices.Sort(names)
		return names
	}
	for value, want := range map[string][]string{clusterName: {"a", "b"}, "c2": {"c"}, "c3": nil} {
		if diff := cmp.Diff(want, find(ReferringToName, value)); diff != "" {
			t.Errorf("those that refer to the name %q (-want +got):\n%s", value, diff)
		}
	}
	for value, want := range map[string][]string{team: {"a", "c"}, "other": {"b"}, "none": nil} {
		if diff := cmp.Diff(want, find(ReferringToNamespace, value)); diff != "" {
			t.Errorf("those that refer to namespace %q (-want +got):\n%s", value, diff)
		}
	}
	without := indexerOf[*unstructured.Unstructured](t, nil, nil)
	for name, by := range map[string]func(cache.Indexer, string) ([]*unstructured.Unstructured, error){"name": ReferringToName, "namespace": ReferringToNamespace} {
		if _, err := by(without, "a"); err == nil {
			t.Errorf("an indexer without the index of %s finds nobody, without an error", name)
		}
	}
	odd := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byProfileName: func(any) ([]string, error) { return []string{"a"}, nil }})
	if err := odd.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "odd"}}); err != nil {
		t.Fatal(err)
	}
	if found, err := ReferringToName(odd, "a"); err != nil || len(found) != 0 {
		t.Errorf("found %v with error %v, want nobody", found, err)
	}
}
