// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"hash/maphash"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"
)

func payloadOf(manifests ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	for _, m := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return w
}

// TestManifestSet holds that payloads match a set when the payloads together have each manifest of the set once.
func TestManifestSet(t *testing.T) {
	const a, b, c = `{"a":1,"b":2}`, `{"b":1}`, `{"c":1}`
	for name, tc := range map[string]struct {
		payloads []*workv1.ManifestWork
		want     bool
	}{
		"the same":             {[]*workv1.ManifestWork{payloadOf(a, b)}, true},
		"another order":        {[]*workv1.ManifestWork{payloadOf(b, a)}, true},
		"two payloads":         {[]*workv1.ManifestWork{payloadOf(a), payloadOf(b)}, true},
		"other order of keys":  {[]*workv1.ManifestWork{payloadOf(`{"b": 2, "a": 1}`, b)}, true},
		"one is missing":       {[]*workv1.ManifestWork{payloadOf(a)}, false},
		"one twice":            {[]*workv1.ManifestWork{payloadOf(a, a)}, false},
		"one twice, and all":   {[]*workv1.ManifestWork{payloadOf(a, b, `{"b":2,"a":1}`)}, false},
		"another beside these": {[]*workv1.ManifestWork{payloadOf(a, b, c)}, false},
		"no JSON":              {[]*workv1.ManifestWork{payloadOf(a, `{`)}, false},
		"none":                 {nil, false},
	} {
		set := newManifestSet(2)
		for _, text := range []string{a, b, a} {
			set.add([]byte(text))
		}
		if got := set.matches(tc.payloads); got != tc.want {
			t.Errorf("%s: match is %v, want %v", name, got, tc.want)
		}
	}
}

// TestManifestSetCollision holds that a set has two texts with one hash.
func TestManifestSetCollision(t *testing.T) {
	const a, other = `{"a":1}`, `{"b":1}`
	set := newManifestSet(2)
	place := maphash.Bytes(set.seed, []byte(a))
	set.entries[place] = manifestEntry{text: []byte(other)}
	if _, ok := set.find([]byte(a)); ok {
		t.Error("a set without the text has the text")
	}
	set.add([]byte(a))
	if at, ok := set.find([]byte(a)); !ok || at != place+1 || len(set.entries) != 2 {
		t.Errorf("the text is at %d, %v, and the set has %d entries", at, ok, len(set.entries))
	}
}
