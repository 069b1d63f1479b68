// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzInventory holds that what is encoded is decoded to the same, one entry a line.
func FuzzInventory(f *testing.F) {
	f.Add("apps", "v1", "deployments", "Deployment", "ns", "name", "uid", "digest", "fields", true)
	f.Add("", "v1", "namespaces", "Namespace", "", "a\nb\"{}<>&\u2028", "", "", "", false)
	f.Fuzz(func(t *testing.T, group, version, resource, kind, namespace, name, uid, digest, fields string, done bool) {
		e := Item{group, version, resource, kind, namespace, name, types.UID(uid), digest, fields, done}
		if !utf8.ValidString(strings.Join([]string{group, version, resource, kind, namespace, name, uid, digest, fields}, ",")) {
			t.Skip("no API server has such names")
		}
		other := Item{Version: "v1", Resource: "secrets", Kind: "Secret", Name: "other"}
		inv := Items{e.ID(): e, other.ID(): other}
		text, err := inv.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(text, "\n"); lines != len(inv) {
			t.Errorf("%d entries are %d lines", len(inv), lines)
		}
		got, err := Decode(text)
		if err != nil {
			if version != "" && resource != "" && kind != "" && name != "" && kind != "CustomResourceDefinition" && !(group == "" && (kind == "Namespace") != (resource == "namespaces")) {
				t.Errorf("cannot decode %q: %v", text, err)
			}
			return
		}
		if diff := cmp.Diff(inv, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// FuzzDecode holds that no text, whoever wrote it, does more than fail.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "{}", "null", `{"version":"v1","resource":"a","kind":"A","name":"a"}`, "[", `{"name":1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		inv, err := Decode(text)
		if err != nil {
			return
		}
		again, err := inv.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(again); err != nil || !cmp.Equal(inv, got) {
			t.Errorf("%q becomes %q: %v", text, again, err)
		}
	})
}

func TestDecode(t *testing.T) {
	const good = `{"version":"v1","resource":"secrets","kind":"Secret","namespace":"a","name":"b"}`
	huge := strings.Repeat(good+"\n", 5000)
	for name, tc := range map[string]struct {
		reason, text, fault string
		entries             int
	}{
		"nothing":        {"There may be nothing.", "", "", 0},
		"one":            {"It is read.", good, "", 1},
		"no line breaks": {"They are for people.", good + strings.Replace(good, `"b"`, `"c"`, 1), "", 2},
		"twice the same": {"It is one object.", good + good, "", 1},
		"very many":      {"It is a matter of time only.", huge, "", 1},
		"an unknown key": {"A newer version wrote it.", `{"version":"v1","resource":"a","kind":"A","name":"a","keep":true}`, `unknown field "keep"`, 0},
		"no name":        {"It would be all of them.", good + `{"version":"v1","resource":"secrets","kind":"Secret"}`, "entry 2: version, resource, kind or name is missing", 0},
		"a CRD":          {"It is one.", `{"group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions","kind":"CustomResourceDefinition","name":"a"}`, "", 1},
		"a CRD of another resource": {
			"Its fields would name a resource to delete.",
			`{"group":"team.dev","version":"v1","resource":"things","kind":"CustomResourceDefinition","name":"a"}`, "do not belong together", 0,
		},
		"a CRD of another group": {
			"Its fields would name a resource to delete.",
			`{"group":"team.dev","version":"v1","resource":"customresourcedefinitions","kind":"CustomResourceDefinition","name":"a"}`, "do not belong together", 0,
		},
		"a CRD in a namespace": {
			"No CRD is in a namespace.",
			`{"group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions","kind":"CustomResourceDefinition","namespace":"a","name":"a"}`, "do not belong together", 0,
		},
		"null":            {"It names nothing.", "null", "entry 1: version", 0},
		"another type":    {"It is no entry.", `["a"]`, "entry 1: ", 0},
		"garbage":         {"It is no JSON.", good + "\n\x00\xff", "entry 2: invalid character", 0},
		"cut off":         {"The rest is not known.", good[:20], "unexpected EOF", 0},
		"nested for ever": {"Nobody's stack is endless.", `{"version":` + strings.Repeat("[", 100000), "exceeded max depth", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inv, err := Decode(tc.text)
			if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("%s Got %v, want %q", tc.reason, err, tc.fault)
			}
			if len(inv) != tc.entries {
				t.Errorf("%s There are %d entries", tc.reason, len(inv))
			}
		})
	}
}

// TestOrder holds that the same inventory is the same text, and its places are the same list.
func TestOrder(t *testing.T) {
	items := Items{}
	for _, kind := range []string{"Secret", "ConfigMap", "Service"} {
		for _, namespace := range []string{"b", "a"} {
			e := Item{Version: "v1", Resource: strings.ToLower(kind) + "s", Kind: kind, Namespace: namespace, Name: "x", Digest: "digest"}
			items[e.ID()] = e
		}
	}
	first, err := items.Encode()
	if err != nil {
		t.Fatal(err)
	}
	places := items.Places()
	for range 20 {
		again, err := Decode(first)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := again.Encode(); err != nil || text != first {
			t.Fatalf("the text differs (%v):\n%s", err, text)
		}
		if !slices.Equal(places, again.Places()) {
			t.Fatal("the places are in another order")
		}
	}
	if len(places) != len(items) {
		t.Errorf("%d objects are in %d places", len(items), len(places))
	}
	if got := (Items{items.Sorted()[0].ID(): {Version: "v1"}}).Places(); len(got) != 0 {
		t.Errorf("objects that were never applied have places: %v", got)
	}
}
