// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// FuzzRender: whatever a CR says, there is a bundle that can be delivered or an *Error. No panic reaches the caller.
func FuzzRender(f *testing.F) {
	for component, fragments := range map[bool][]fragment{false: servingFragments(), true: eventingFragments()} {
		for _, s := range fragments {
			f.Add(component, s.spec)
		}
	}
	f.Add(false, "config: {a: {b: c}, '': {d: e}}\nworkloads: [{name: '', replicas: -1}]")
	f.Add(false, "version: '1'\nmanifests: [{URL: ''}]")
	f.Add(true, "config: {br-defaults: {default-br-config: 'null'}}")
	f.Add(true, "config: {br-defaults: {default-br-config: 'clusterDefault: null'}, features: {' transport-encryption': strict}}")
	f.Add(false, "config: {istio: {local-gateways: '- {name: knative-local-gateway, namespace: Up}'}}\ningress: {istio: {enabled: true}}")
	f.Add(true, "resources: [{container: eventing-controller, limits: {cpu: 1e400}}]")
	f.Fuzz(func(t *testing.T, eventing bool, spec string) {
		component := api.Serving
		if eventing {
			component = api.Eventing
		}
		var fields map[string]any
		if err := yaml.Unmarshal([]byte(spec), &fields); err != nil || fields == nil {
			t.Skip("it is no spec")
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
		u.SetAPIVersion("operator.knative.dev/v1beta1")
		u.SetKind(component.Kind())
		u.SetName("fuzz")
		in, err := Decode(u)
		if err != nil {
			requireError(t, err)
			return
		}
		b, err := shared.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
		if err != nil {
			requireError(t, err)
			return
		}
		checkDeliverable(t, b)
	})
}

// FuzzDecode: whatever the API server stores, Decode says what it is or why not, and keeps nothing that is larger than the
// bounds or that a YAML parser would expand.
func FuzzDecode(f *testing.F) {
	add := func(eventing bool, spec map[string]any) {
		data, err := json.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(eventing, data)
	}
	for eventing, fragments := range map[bool][]fragment{false: servingFragments(), true: eventingFragments()} {
		for _, s := range fragments {
			spec, _ := resource(f, api.Serving, s.spec).Object["spec"].(map[string]any)
			add(eventing, spec)
		}
	}
	add(false, map[string]any{"patches": patchesOf(MergePatch, aliasBomb(10, 10), "a: b")})
	add(false, map[string]any{"patches": patchesOf(JSONPatch, copyPatch(1), addPatch(10), copies())})
	add(false, map[string]any{"patches": make([]any, api.MaxPatches+1), "workloads": make([]any, api.MaxListItems+1)})
	add(true, map[string]any{"config": map[string]any{"br-defaults": map[string]any{"default-br-config": aliasBomb(10, 10)}}})
	add(false, map[string]any{"config": map[string]any{"istio": map[string]any{"local-gateways": "- &a {name: b}\n- *a\n"}}})
	f.Fuzz(func(t *testing.T, eventing bool, data []byte) {
		component := api.Serving
		if eventing {
			component = api.Eventing
		}
		var spec map[string]any
		if err := json.Unmarshal(data, &spec); err != nil {
			return // the API server stores no such thing
		}
		in, err := Decode(written(component, spec))
		if err != nil {
			requireError(t, err)
			return
		}
		total := 0
		for n, p := range in.patches {
			total += len(p.Patch.Content)
			checkExpansion(t, p.Patch.Content)
			if len(p.Patch.Content) > api.MaxPatchBytes || n >= api.MaxPatches || total > maxPatchesBytes {
				t.Errorf("patch %d of %d bytes, %d together, is accepted", n, len(p.Patch.Content), total)
			}
		}
		for _, name := range []string{"br-defaults", "config-br-defaults"} {
			checkExpansion(t, in.componentSpec().GetConfig()[name]["default-br-config"])
		}
	})
}

// checkExpansion checks that a parser does not make much of a text: the dearest characters of JSON have six bytes.
func checkExpansion(t *testing.T, text string) {
	t.Helper()
	if data, err := yaml.YAMLToJSON([]byte(text)); err == nil && len(data) > 12*len(text)+64 {
		t.Errorf("%d bytes of YAML become %d bytes of JSON", len(text), len(data))
	}
}

// FuzzFields puts a text into a field that means something: what FuzzRender makes is mostly refused by Decode.
func FuzzFields(f *testing.F) {
	for n, text := range oddTexts() {
		f.Add(uint16(n*977), text)
	}
	places := fieldPlaces(f)
	f.Fuzz(func(t *testing.T, n uint16, text string) {
		renderWith(t, places[int(n)%len(places)], text)
	})
}

// TestOddTexts puts odd texts into fields of the matrix that take a text; FuzzFields knows them all.
func TestOddTexts(t *testing.T) {
	skipLongTest(t)
	texts, places := oddTexts(), fieldPlaces(t)
	for n := 0; n < len(places); n += 3 {
		renderWith(t, places[n], texts[n/3%len(texts)])
	}
}

func oddTexts() []string {
	return []string{
		"", "a b", "\x00", "${NAME}", "$HOME", strings.Repeat("x", 300), "{{", "\u00e9\u2028", "../../etc", "null", "-1", "%s%n", "a: b: c",
		"https://example.com", "A", ".", "knative.dev/x", "1e400",
	}
}

// fieldPlace is a field of a fragment: the spec, and the way to the text.
type fieldPlace struct {
	component api.Component
	spec      string
	path      []any
}

func fieldPlaces(tb testing.TB) []fieldPlace {
	tb.Helper()
	var out []fieldPlace
	for _, component := range api.Components() {
		fragments := servingFragments()
		if component == api.Eventing {
			fragments = eventingFragments()
		}
		for _, f := range fragments {
			spec, _ := resource(tb, component, f.spec).Object["spec"].(map[string]any)
			for _, path := range textsOf(spec, nil) {
				out = append(out, fieldPlace{component, f.spec, path})
			}
		}
	}
	return out
}

// textsOf are the ways to the texts of a value, in a fixed order.
func textsOf(value any, at []any) [][]any {
	var out [][]any
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, textsOf(v[key], append(slices.Clone(at), key))...)
		}
	case []any:
		for n := range v {
			out = append(out, textsOf(v[n], append(slices.Clone(at), n))...)
		}
	case string:
		out = append(out, at)
	}
	return out
}

// renderWith renders a fragment with another text in one place.
func renderWith(t *testing.T, p fieldPlace, text string) {
	t.Helper()
	u := resource(t, p.component, p.spec)
	last := len(p.path) - 1
	switch parent := at(t, u.Object["spec"], p.path[:last]...).(type) {
	case map[string]any:
		parent[p.path[last].(string)] = text
	case []any:
		parent[p.path[last].(int)] = text
	}
	in, err := Decode(u)
	if err != nil {
		requireError(t, err)
		return
	}
	b, err := shared.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
	if err != nil {
		requireError(t, err)
		if ReasonOf(err) == api.ReasonRenderFailed {
			t.Errorf("%v = %q: %v: want a guard that says what is wrong with the spec", p.path, text, err)
		}
		return
	}
	checkDeliverable(t, b)
}

// requireError: a failure has a reason and a message in one line.
func requireError(t *testing.T, err error) {
	t.Helper()
	e := (*Error)(nil)
	if !errors.As(err, &e) || e.Reason == "" || e.Message == "" {
		t.Errorf("%T %v is no *Error with a reason", err, err)
	}
	if e != nil && e.Reason == api.ReasonRenderFailed && strings.Contains(e.Message, "manifests:") {
		t.Errorf("%v names no object", err)
	}
}

// FuzzPatch: whatever a patch says, it changes the object that it names and no other, or it is an *Error.
func FuzzPatch(f *testing.F) {
	for _, content := range []string{
		"{}", "null", "[]", "7", "a: b", "[{op: remove, path: /spec}]", "[{op: copy, from: '', path: /spec/x}]",
		"[{op: move, from: /spec, path: /metadata/labels}]", "$patch: delete", "{$patch: replace, data: {a: b}}", "metadata: null",
		"metadata: {labels: 7}", "spec: {template: {spec: {containers: [{$patch: replace}]}}}", "spec: {replicas: 1.5}",
		"[{op: add, path: /metadata/labels/a~1b, value: c}]", "spec: {$setElementOrder/containers: [7]}", "status: {a: b}",
		"spec: {template: {spec: {$retainKeys: [a]}}}", copies(), copyPatch(1), addPatch(100), aliasBomb(10, 10), "a: &b c",
	} {
		for kind := range uint8(3) {
			f.Add(kind, content)
		}
	}
	plain := bundle(f, api.Serving, kourier)
	before := map[ObjectID]string{}
	for _, o := range plain.Objects() {
		before[o.ID()] = string(o.JSON)
	}
	f.Fuzz(func(t *testing.T, kind uint8, content string) {
		controller := target("apps/v1", "Deployment", "controller")
		patch := Patch{controller, PatchSpec{[]PatchType{JSONPatch, MergePatch, StrategicPatch}[kind%3], content}}
		d := &draft{
			component: api.Serving, version: "1.23.0", namespace: "knative-serving", spec: install(t, api.Serving, "{}").componentSpec(),
			patches: []Patch{patch}, options: Options{Mode: api.ModeManifestWork}, allowed: newAllowedKinds(nil),
			users: map[ObjectID]bool{}, additional: map[ObjectID]bool{}, store: newObjectStore(),
		}
		for _, o := range plain.Objects() {
			d.objects = append(d.objects, o.DeepCopy())
		}
		if err := patch.validatePatch(); err != nil || len(content) > api.MaxPatchBytes {
			t.Skip("Decode refuses it")
		}
		checkExpansion(t, content)
		b, err := d.buildBundle()
		if err != nil {
			requireError(t, err)
			return
		}
		checkPatched(t, b, before)
	})
}

// checkPatched: a patch of the controller changed nothing else, and made nothing that is too large or no JSON.
func checkPatched(t *testing.T, b *Bundle, before map[ObjectID]string) {
	t.Helper()
	for _, o := range b.Objects() {
		if o.GetName() != "controller" && before[o.ID()] != string(o.JSON) {
			t.Errorf("the patch changed %s", o.ID())
		}
		if !json.Valid(o.JSON) {
			t.Errorf("%s is no JSON", o.ID())
		}
		if len(o.JSON) > maxObjectBytes {
			t.Errorf("%s has %d bytes", o.ID(), len(o.JSON))
		}
	}
}
