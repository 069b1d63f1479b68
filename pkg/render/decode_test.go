// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/operator/pkg/apis/operator/base"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestDecodeRefuses(t *testing.T) {
	cases := map[string]struct {
		spec string
		want string
	}{
		"an unknown field":                  {"ingres: {}", `unknown field "ingres"`},
		"a nested unknown field":            {"ingress: {kourier: {enable: true}}", `unknown field "ingress.kourier.enable"`},
		"a field in another case":           {"Version: '1.23'", `unknown field "Version"`},
		"a field of the other kind":         {"source: {kafka: {enabled: true}}", `unknown field "source"`},
		"a value of the wrong type":         {"high-availability: {replicas: many}", "cannot unmarshal string"},
		"two names that differ":             {"namespace: {labels: {a: b}}\nnamespaceConfiguration: {labels: {a: c}}", "two names of one field and differ"},
		"a patch without a target":          {"patches: [{patch: {type: json, content: '[]'}}]", "spec.patches[0]: target.apiVersion is empty"},
		"a patch with an unknown type":      {"patches: [{target: {apiVersion: v1, kind: Service, name: a}, patch: {type: yaml, content: '{}'}}]", `patch.type is "yaml"`},
		"a patch without content":           {"patches: [{target: {apiVersion: v1, kind: Service, name: a}, patch: {type: json, content: ' '}}]", "patch.content is empty"},
		"a patch with an unknown field":     {"patches: [{target: {apiVersion: v1, kind: Service, name: a, labels: {}}, patch: {type: json, content: '[]'}}]", `unknown field "[0].target.labels"`},
		"patches that are no list":          {"patches: {}", "spec.patches"},
		"resources that are no quantities":  {"resources: [{container: a, limits: {cpu: lots}}]", "quantities must match"},
		"a namespace that is no object":     {"namespaceConfiguration: 7", "cannot unmarshal number"},
		"a version that is a number":        {"version: 1.23", "cannot unmarshal number"},
		"a config value that is no text":    {"config: {autoscaler: {enable-scale-to-zero: true}}", "cannot unmarshal bool"},
		"a list where an object is wanted":  {"ingress: []", "cannot unmarshal array"},
		"a reference that is not an object": {"clusterProfileRef: here", "cannot unmarshal string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(resource(t, api.Serving, tc.spec))
			if ReasonOf(err) != api.ReasonInvalidSpec || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Decode: %s: %v, want %s with %q", ReasonOf(err), err, api.ReasonInvalidSpec, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), `KnativeServing "fleet/knative"`) {
				t.Errorf("Decode: %v, want the name of the resource", err)
			}
		})
	}
}

func TestDecodeRefusesOtherKinds(t *testing.T) {
	for name, change := range map[string]func(*unstructured.Unstructured){
		"another kind":    func(u *unstructured.Unstructured) { u.SetKind("KnativeFunctions") },
		"another version": func(u *unstructured.Unstructured) { u.SetAPIVersion("operator.knative.dev/v1alpha1") },
		"another group":   func(u *unstructured.Unstructured) { u.SetAPIVersion("example.com/v1beta1") },
		"a spec that is a list": func(u *unstructured.Unstructured) {
			u.Object["spec"] = []any{}
		},
		"an install namespace that is no name": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{api.InstallNamespaceAnnotation: "$HOME"})
		},
		"the install namespace of the other component": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{api.InstallNamespaceAnnotation: api.Eventing.InstallNamespace()})
		},
		"an empty install namespace": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{api.InstallNamespaceAnnotation: ""})
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := resource(t, api.Serving, "{}")
			change(u)
			if _, err := Decode(u); ReasonOf(err) != api.ReasonInvalidSpec {
				t.Errorf("Decode: %v, want %s", err, api.ReasonInvalidSpec)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	u := resource(t, api.Serving, `
version: "1.22"
clusterProfileRef: {name: one, namespace: fleet}
namespaceConfiguration: {labels: {team: a}}
`)
	u.SetAnnotations(map[string]string{api.InstallNamespaceAnnotation: "edge"})
	u.Object["status"] = map[string]any{"version": "1.21.3", "conditions": "of no interest"}
	before := u.DeepCopy()
	in, err := Decode(u)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object, u.Object); diff != "" {
		t.Errorf("Decode changed its input (-before +after):\n%s", diff)
	}
	type facts struct {
		Component                                api.Component
		Name, Namespace, Target, Spec, Installed string
		Reference                                *base.ClusterProfileReference
		Labels                                   map[string]string
	}
	got := facts{
		in.Component(), in.Name(), in.Namespace(), in.InstallNamespace(), in.SpecVersion(), in.InstalledVersion(),
		in.ClusterProfileRef(), in.componentSpec().GetNamespaceConfiguration().Labels,
	}
	want := facts{
		api.Serving, "knative", "fleet", "edge", "1.22", "1.21.3",
		&base.ClusterProfileReference{Name: "one", Namespace: "fleet"},
		map[string]string{"team": "a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

func TestContent(t *testing.T) {
	const plain = kourier + "namespace: {labels: {a: b}}"
	base := install(t, api.Serving, plain)
	same := map[string]string{
		"a reference":            plain + "\nclusterProfileRef: {name: one, namespace: fleet}",
		"the documented name":    kourier + "namespaceConfiguration: {labels: {a: b}}",
		"both names":             plain + "\nnamespaceConfiguration: {labels: {a: b}}",
		"empty lists and fields": plain + "\npatches: []\nmanifests: []\nversion: ''",
	}
	for name, spec := range same {
		if in := install(t, api.Serving, spec); in.content != base.content {
			t.Errorf("%s changes the content of a resource", name)
		}
	}
	different := map[string]string{
		"a version": plain + "\nversion: '1.23'",
		"a label":   kourier + "namespace: {labels: {a: c}}",
		"a patch":   plain + "\npatches: [{target: {apiVersion: v1, kind: Service, name: kourier}, patch: {type: merge, content: '{}'}}]",
	}
	for name, spec := range different {
		if in := install(t, api.Serving, spec); in.content == base.content {
			t.Errorf("%s does not change the content of a resource", name)
		}
	}
	if pinned := base.WithVersion("1.23"); pinned.content != install(t, api.Serving, different["a version"]).content {
		t.Error("WithVersion makes other content than the same version in the spec")
	}
	if base.WithVersion("") != base || base.SpecVersion() != "" {
		t.Error("WithVersion changed its receiver")
	}
}

// Two resources that differ only in where they go share one bundle; what differs in content does not.
func TestRenderShares(t *testing.T) {
	ctx, options := context.Background(), DefaultOptions(api.ModeManifestWork)
	render := func(in *Install, options Options) *Bundle {
		t.Helper()
		b, err := shared.Render(ctx, in, options)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one := render(install(t, api.Serving, kourier+"clusterProfileRef: {name: one, namespace: a}"), options)
	if two := render(install(t, api.Serving, kourier+"clusterProfileRef: {name: two, namespace: b}"), options); one != two {
		t.Error("two clusters with the same content have two bundles")
	}
	if exact := render(install(t, api.Serving, kourier).WithVersion(one.Version), options); exact.Digest != one.Digest {
		t.Error("the newest version by name renders otherwise than an empty version")
	}
	if elsewhere := render(installIn(t, "edge", api.Serving, kourier), options); elsewhere.Digest == one.Digest {
		t.Error("another install namespace has the same digest")
	}
	if whole := render(install(t, api.Serving, kourier), Options{KeepExamples: true}); whole.Digest == one.Digest {
		t.Error("other options have the same digest")
	}
	if unset := render(install(t, api.Serving, kourier), Options{}); unset != one {
		t.Error("options without a mode are not those of pull mode")
	}
}

func TestDecodeYAML(t *testing.T) {
	const stream = `
# two resources
apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata: {name: one}
spec: {high-availability: {replicas: 3}}
---
---
apiVersion: operator.knative.dev/v1beta1
kind: KnativeEventing
metadata: {name: two}
`
	list, err := DecodeYAML([]byte(stream))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, in := range list {
		names = append(names, string(in.Component())+"/"+in.Name())
	}
	if diff := cmp.Diff([]string{"knative-serving/one", "knative-eventing/two"}, names); diff != "" {
		t.Errorf("DecodeYAML (-want +got):\n%s", diff)
	}
	data, err := json.Marshal(resource(t, api.Serving, "high-availability: {replicas: 3}").Object)
	if err != nil {
		t.Fatal(err)
	}
	if fromJSON, err := DecodeYAML(data); err != nil || fromJSON[0].content != list[0].content {
		t.Errorf("DecodeYAML reads JSON otherwise than YAML: %v", err)
	}
	for name, text := range map[string]string{
		"nothing":         "---\n",
		"another kind":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"a key twice":     "apiVersion: operator.knative.dev/v1beta1\nkind: KnativeServing\nspec: {version: '1', version: '2'}\n",
		"no YAML":         "\t{",
		"an unknown key":  "apiVersion: operator.knative.dev/v1beta1\nkind: KnativeServing\nspec: {versio: '1'}\n",
		"a sole sequence": "- a\n",
	} {
		if _, err := DecodeYAML([]byte(text)); ReasonOf(err) != api.ReasonInvalidSpec {
			t.Errorf("DecodeYAML of %s: %v, want %s", name, err, api.ReasonInvalidSpec)
		}
	}
}
