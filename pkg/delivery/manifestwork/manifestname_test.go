// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// largeManifest is a CustomResourceDefinition of the size of Knative's.
func largeManifest(name string) []byte {
	return fmt.Appendf(nil, `{"kind":"CustomResourceDefinition","metadata":{"name":%q,"annotations":{"a":"b"}},"spec":{"schema":{%s"x":1}}}`,
		name, strings.Repeat(`"field":{"type":"string"},`, 1000))
}

// TestAnnotateManifest holds that equal manifests share one annotated manifest, and that other manifests, keys and values have their own.
func TestAnnotateManifest(t *testing.T) {
	annotate := func(name, key, value string) []byte {
		raw, err := annotateManifest(largeManifest(name), key, value)
		if err != nil {
			t.Fatal(err)
		}
		named, err := readManifestName(raw)
		if err != nil {
			t.Fatal(err)
		}
		if named.Metadata.Name != name || named.Metadata.Annotations[key] != value || named.Metadata.Annotations["a"] != "b" || !json.Valid(raw) {
			t.Fatalf("the manifest is %+v", named)
		}
		return raw
	}
	first := annotate("one", api.CreatedByHubAnnotation, "h1")
	if again := annotate("one", api.CreatedByHubAnnotation, "h1"); &again[0] != &first[0] {
		t.Error("an equal manifest was annotated again")
	}
	annotate("two", api.CreatedByHubAnnotation, "h1")
	annotate("one", api.CreatedByHubAnnotation, "h2")
	annotate("one", api.HubAnnotation, "h1")
	for _, text := range []string{`{"metadata":null}`, `{"metadata":{"annotations":null}}`, `{"metadata":{}}`} {
		raw, err := annotateManifest([]byte(text), "a", "b")
		if err != nil || string(raw) != `{"metadata":{"annotations":{"a":"b"}}}` {
			t.Errorf("%s becomes %s, error %v", text, raw, err)
		}
	}
	if _, err := annotateManifest([]byte(`{"metadata":`), "a", "b"); err == nil {
		t.Error("half a manifest was annotated")
	}
	if _, err := readManifestName([]byte(`{"metadata":`)); err == nil {
		t.Error("half a manifest has a name")
	}
}

// TestLargeManifestIsNotRemembered holds that manifests which only a work agent can have written take no memory.
func TestLargeManifestIsNotRemembered(t *testing.T) {
	raw := fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{"name":"large","annotations":{"a":%q}}}`, strings.Repeat("x", maxRememberedSize))
	annotated, err := annotateManifest(raw, "b", "c")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := annotateManifest(raw, "b", "c"); err != nil || &again[0] == &annotated[0] {
		t.Errorf("a large annotated manifest is remembered, error %v", err)
	}
	first, err := readManifestName(raw)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := readManifestName(raw); err != nil || again == first || again.Metadata.Name != "large" {
		t.Errorf("the name of a large manifest is remembered as %p and %p, error %v", first, again, err)
	}
}

func BenchmarkAnnotateManifest(b *testing.B) {
	raw := largeManifest("one")
	for name, annotate := range map[string]func([]byte, string, string) ([]byte, error){"encoded": encodeAnnotation, "remembered": annotateManifest} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := annotate(raw, "a", "c"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
