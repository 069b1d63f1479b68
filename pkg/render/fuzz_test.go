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
		b, err := shared.Render(context.Background(), in, DefaultOptions(Pull))
		if err != nil {
			requireError(t, err)
			return
		}
		checkDeliverable(t, b)
	})
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
	b, err := shared.Render(context.Background(), in, DefaultOptions(Pull))
	if err != nil {
		requireError(t, err)
		if ReasonOf(err) == ReasonInternal {
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
	if e != nil && e.Reason == ReasonInternal && strings.Contains(e.Message, "manifests:") {
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
		"spec: {template: {spec: {$retainKeys: [a]}}}", copies(),
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
			component: api.Serving, version: "1.23.0", namespace: "knative-serving", spec: install(t, api.Serving, "{}").spec(),
			patches: []Patch{patch}, options: Options{Mode: Pull}, allowed: allowedKinds(nil),
			users: map[ObjectID]bool{}, additional: map[ObjectID]bool{}, store: newObjectStore(),
		}
		for _, o := range plain.Objects() {
			d.objects = append(d.objects, o.DeepCopy())
		}
		if err := patch.validate(); err != nil {
			t.Skip("Decode refuses it")
		}
		b, err := d.finish()
		if err != nil {
			requireError(t, err)
			return
		}
		for _, o := range b.Objects() {
			if o.GetName() != "controller" && before[o.ID()] != string(o.JSON) {
				t.Errorf("the patch changed %s", o.ID())
			}
			if !json.Valid(o.JSON) {
				t.Errorf("%s is no JSON", o.ID())
			}
		}
	})
}
