// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// aliasBomb is a short YAML text that a parser makes a long one of.
func aliasBomb(size, aliases int) string {
	return "x: &a " + strings.Repeat("z", size) + "\ny: [" + strings.Repeat("*a,", aliases-1) + "*a]\n"
}

// written is a resource with a spec of Go values.
func written(component api.Component, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion("operator.knative.dev/v1beta1")
	u.SetKind(component.Kind())
	u.SetNamespace("tenant")
	u.SetName("dear")
	return u
}

// patchesOf are entries of spec.patches for one ConfigMap.
func patchesOf(kind PatchType, contents ...string) []any {
	var out []any
	for _, content := range contents {
		out = append(out, map[string]any{
			"target": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "config-features"},
			"patch":  map[string]any{"type": string(kind), "content": content},
		})
	}
	return out
}

// repeated are n texts.
func repeated(n int, text func(n int) string) []string {
	var out []string
	for i := range n {
		out = append(out, text(i))
	}
	return out
}

// copyPatch copies what the first patch has written five times.
func copyPatch(n int) string {
	var operations []string
	for i := range 5 {
		operations = append(operations, fmt.Sprintf(`{"op": "copy", "from": "/data/x", "path": "/data/c%d_%d"}`, n, i))
	}
	return "[" + strings.Join(operations, ",") + "]"
}

func addPatch(size int) string {
	return `[{"op": "add", "path": "/data/x", "value": "` + strings.Repeat("z", size) + `"}]`
}

// What a tenant writes is refused before it becomes large, with a message that names field and remedy, and the same content is
// rendered once.
func TestRefusedBounds(t *testing.T) {
	skipLongTest(t)
	brokers := func(field, text string) map[string]any {
		return map[string]any{"config": map[string]any{field: map[string]any{"default-br-config": text}}}
	}
	cases := map[string]struct {
		component api.Component
		spec      map[string]any
		reason    Reason
		want      []string
	}{
		"aliases in a patch": {
			spec:   map[string]any{"patches": patchesOf(MergePatch, "a: b", aliasBomb(100, 600))},
			reason: api.ReasonInvalidSpec, want: []string{"spec.patches[1]: patch.content: line 1", "anchors and aliases", "write the value"},
		},
		"aliases in a patch of 100 kB": {
			spec:   map[string]any{"patches": patchesOf(MergePatch, aliasBomb(100_000, 6000))},
			reason: api.ReasonTooLarge, want: []string{"spec.patches[0].patch.content", "65536 is the limit", "shorten"},
		},
		"an anchor in a JSON patch": {
			spec:   map[string]any{"patches": patchesOf(JSONPatch, "[{op: add, path: /data/x, value: &a b}]")},
			reason: api.ReasonInvalidSpec, want: []string{"spec.patches[0]", "anchors and aliases"},
		},
		"aliases in the defaults of brokers": {
			component: api.Eventing, spec: brokers("br-defaults", aliasBomb(40_000, 1000)),
			reason: api.ReasonInvalidSpec, want: []string{`spec.config.br-defaults: key "default-br-config"`, "anchors and aliases"},
		},
		"aliases in the defaults of brokers, by the long name": {
			component: api.Eventing, spec: brokers("config-br-defaults", "clusterDefault: &a {b: c}"),
			reason: api.ReasonInvalidSpec, want: []string{"spec.config.config-br-defaults", "anchors and aliases"},
		},
		"long defaults of brokers": {
			component: api.Eventing, spec: brokers("br-defaults", "a: "+strings.Repeat("b", maxYAMLBytes)),
			reason: api.ReasonInvalidSpec, want: []string{"spec.config.br-defaults", "65536 is the limit"},
		},
		"aliases in the gateways of Istio": {
			spec:   map[string]any{"config": map[string]any{"istio": map[string]any{"local-gateways": aliasBomb(100, 100)}}},
			reason: api.ReasonInvalidSpec, want: []string{`spec.config.istio: key "local-gateways"`, "anchors and aliases"},
		},
		"copies in many patches": {
			spec:   map[string]any{"patches": patchesOf(JSONPatch, append([]string{addPatch(60_000)}, repeated(90, copyPatch)...)...)},
			reason: api.ReasonTooLarge, want: []string{"spec.patches[4]", "ConfigMap */config-features", "1048576 is the limit", "write less"},
		},
		"copies that double in each patch": {
			spec: map[string]any{"patches": patchesOf(JSONPatch, repeated(30, func(n int) string {
				return fmt.Sprintf(`[{"op": "copy", "from": "/data", "path": "/data/d%d"}]`, n)
			})...)},
			reason: api.ReasonTooLarge, want: []string{"spec.patches[", "is the limit"},
		},
		"too many patches": {
			spec: map[string]any{"patches": patchesOf(MergePatch, repeated(8000, func(n int) string {
				return fmt.Sprintf(`{"data":{"k%d":"v"}}`, n)
			})...)},
			reason: api.ReasonTooLarge, want: []string{"spec.patches has 8000 entries", "100 is the limit", "merge"},
		},
		"patches that are long together": {
			spec:   map[string]any{"patches": patchesOf(MergePatch, repeated(10, func(int) string { return "a: " + strings.Repeat("b", 60_000) })...)},
			reason: api.ReasonTooLarge, want: []string{"spec.patches[4]", "262144 is the limit"},
		},
		"patches of a large object": {
			spec: map[string]any{"patches": patchesOf(MergePatch, append(repeated(4, func(n int) string {
				return fmt.Sprintf("data: {big%d: %s}", n, strings.Repeat("b", 60_000))
			}), repeated(96, func(n int) string { return fmt.Sprintf("data: {k%d: v}", n) })...)...)},
			reason: api.ReasonTooLarge, want: []string{"spec.patches[", "33554432 is the limit", "merge patches"},
		},
		"a long text": {
			spec:   map[string]any{"registry": map[string]any{"default": strings.Repeat("x", api.MaxTextBytes+1)}},
			reason: api.ReasonTooLarge, want: []string{"spec.registry.default has 16385 bytes", "16384 is the limit", "shorten"},
		},
		"a long list": {
			spec:   map[string]any{"workloads": make([]any, api.MaxListItems+1)},
			reason: api.ReasonTooLarge, want: []string{"spec.workloads has 257 entries", "256 is the limit"},
		},
		"a large map": {
			spec:   map[string]any{"config": map[string]any{"features": manyKeys(api.MaxMapKeys + 1)}},
			reason: api.ReasonTooLarge, want: []string{"spec.config.features has 1025 keys", "1024 is the limit"},
		},
		"a large spec": {
			spec: map[string]any{"config": map[string]any{"features": map[string]any{
				"a": strings.Repeat("x", 600_000), "b": strings.Repeat("x", 600_000),
			}}},
			reason: api.ReasonTooLarge, want: []string{"more than 1048576 bytes", "shorten spec.config"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := written(firstComponent(tc.component), tc.spec)
			for _, mode := range []api.DeliveryMode{api.ModeManifestWork, api.ModeDirect} {
				_, err := decodeAndRender(u, mode)
				checkRefusal(t, err, tc.reason, tc.want...)
			}
		})
	}
}

// checkRefusal: the error has the reason, says all that is wanted, and fits into a condition.
func checkRefusal(t *testing.T, err error, reason Reason, texts ...string) {
	t.Helper()
	if ReasonOf(err) != reason {
		t.Fatalf("%s: %v, want %s", ReasonOf(err), err, reason)
	}
	for _, text := range texts {
		if !containsText(err, text) {
			t.Errorf("%q is not in: %v", text, err)
		}
	}
	if len(err.Error()) > maxMessageBytes+len("...") {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

func firstComponent(c api.Component) api.Component {
	if c == "" {
		return api.Serving
	}
	return c
}

func manyKeys(n int) map[string]any {
	out := map[string]any{}
	for i := range n {
		out[fmt.Sprintf("k%d", i)] = "v"
	}
	return out
}

func decodeAndRender(u *unstructured.Unstructured, mode api.DeliveryMode) (*Bundle, error) {
	in, err := Decode(u)
	if err != nil {
		return nil, err
	}
	return shared.Render(context.Background(), in, DefaultOptions(mode))
}

// A text that only holds the characters of anchors and aliases is no reason to refuse it.
func TestPermittedTexts(t *testing.T) {
	for name, content := range map[string]string{
		"quoted":    `data: {a: "&b", c: '*b', d: "a && b * c"}`,
		"plain":     "data:\n  a: tom & jerry\n  b: 2*3\n",
		"JSON":      `{"data": {"a": "&b *b"}}`,
		"a block":   "data:\n  a: |\n    x: &b c\n    y: *b\n",
		"a comment": "data: {a: b} # &c *c\n",
		"a URL":     "data: {a: 'https://example.com/?b=c&d=*'}",
	} {
		t.Run(name, func(t *testing.T) {
			u := written(api.Serving, map[string]any{"patches": patchesOf(MergePatch, content)})
			if _, err := decodeAndRender(u, api.ModeManifestWork); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("what nobody reads as YAML", func(t *testing.T) {
		u := written(api.Serving, map[string]any{"config": map[string]any{"features": map[string]any{"a": "x: &b c\ny: *b"}}})
		if _, err := decodeAndRender(u, api.ModeManifestWork); err != nil {
			t.Error(err)
		}
	})
}

// What is within the bounds is rendered: a hundred patches, and a ConfigMap of a quarter of a megabyte.
func TestGenerousBounds(t *testing.T) {
	patches := patchesOf(MergePatch, append(repeated(3, func(n int) string {
		return fmt.Sprintf("data: {big%d: %s}", n, strings.Repeat("b", 60_000))
	}), repeated(60, func(n int) string { return fmt.Sprintf("data: {k%d: v}", n) })...)...)
	b, err := decodeAndRender(written(api.Serving, map[string]any{"patches": patches}), api.ModeManifestWork)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(object(t, b, "ConfigMap", "config-features").JSON); size < 180_000 {
		t.Errorf("config-features has %d bytes, want what the patches put there", size)
	}
}

// Direct delivery has no ManifestWork, and bounds all the same.
func TestDirectBounds(t *testing.T) {
	config := map[string]any{}
	for _, name := range []string{"features", "autoscaler", "network", "logging", "observability", "gc"} {
		config[name] = map[string]any{"large": strings.Repeat("x", 170_000)}
	}
	d := draftOf(t)
	for n := range 5 {
		d.objects = append(d.objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("c%d", n)},
			"data": map[string]any{"x": strings.Repeat("x", 900_000)},
		}})
	}
	d.store, d.options = newObjectStore(), Options{Mode: api.ModeDirect}
	if _, err := newBundle(d); ReasonOf(err) != api.ReasonTooLarge || !containsText(err, "4194304 is the limit") || !containsText(err, `ConfigMap "c0"`) {
		t.Errorf("a bundle of 4.5 MB: %v", err)
	}
	d.objects = d.objects[:1]
	d.objects[0].Object["data"] = map[string]any{"x": strings.Repeat("x", maxObjectBytes)}
	if _, err := newBundle(d); ReasonOf(err) != api.ReasonTooLarge || !containsText(err, "1048576 is the limit") {
		t.Errorf("an object of more than 1 MiB: %v", err)
	}
	d.objects = nil
	for n := range maxObjects + 1 {
		d.objects = append(d.objects, parse(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n", n)))
	}
	if _, err := newBundle(d); ReasonOf(err) != api.ReasonTooLarge || !containsText(err, "2000 is the limit") {
		t.Errorf("2001 objects: %v", err)
	}
	if _, err := decodeAndRender(written(api.Serving, map[string]any{"config": config}), api.ModeDirect); err != nil {
		t.Errorf("a large configuration for push: %v", err)
	}
}

// The values of a cluster cannot make a spec large, nor bring aliases.
func TestValuesBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, value string
		reason      Reason
		want        string
	}{
		"many references": {
			spec:  fmt.Sprintf("config: {features: {a: %q}}", strings.Repeat("$(cluster.labels.v)", 40_000)),
			value: strings.Repeat("x", 60), reason: api.ReasonTooLarge, want: "use them less often",
		},
		"an anchor": {
			spec: "config: {br-defaults: {default-br-config: 'clusterDefault: $(cluster.labels.v)'}}", value: "&a {b: c}",
			reason: api.ReasonInvalidSpec, want: "anchors and aliases",
		},
	} {
		in, err := install(t, api.Eventing, tc.spec).On(cluster("labels.v", tc.value), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shared.Render(t.Context(), in, DefaultOptions(api.ModeDirect)); ReasonOf(err) != tc.reason || !containsText(err, tc.want) {
			t.Errorf("%s: %v, want %s with %q", name, err, tc.reason, tc.want)
		}
	}
}

// A document that is short and has many values is refused before a parser reads it.
func TestCheckDocument(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"many empty lists": {"a: [" + strings.Repeat("[],", 300_000) + "]", "values"},
		"aliases":          {aliasBomb(10, 10), "anchors"},
		"usual":            {"a: b\nc: [d]\n", ""},
	} {
		err := checkDocument([]byte(tc.text))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// The size that bounds are about is that of the JSON, or a little more.
func TestSpecSize(t *testing.T) {
	spec := map[string]any{"a": "b", "c": []any{"d", int64(7), map[string]any{"e": true}}}
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	c := boundsCheck{text: api.MaxTextBytes}
	if fault := c.checkValue(spec); fault != nil || c.size < len(data)-2 || c.size > len(data)+16 {
		t.Errorf("the size is %d (%v), that of the JSON %d", c.size, fault, len(data))
	}
}
