// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// patchSpec is a spec with patches.
func patchSpec(t *testing.T, patches ...Patch) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{"patches": patches})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func target(apiVersion, kind, name string) PatchTarget {
	return PatchTarget{APIVersion: apiVersion, Kind: kind, Name: name}
}

func TestPatches(t *testing.T) {
	deployment := target("apps/v1", "Deployment", "controller")
	hpa := target("autoscaling/v2", "HorizontalPodAutoscaler", "activator")
	features := target("v1", "ConfigMap", "config-features")
	activator := target("apps/v1", "Deployment", "activator")
	webhook := target("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "webhook.serving.knative.dev")
	cases := map[string]struct {
		patches []Patch
		kind    string
		name    string
		path    []any
		want    any
	}{
		"strategic: a list is merged by name": {
			[]Patch{{deployment, PatchSpec{StrategicPatch, "spec: {template: {spec: {containers: [{name: controller, imagePullPolicy: Never}]}}}"}}},
			"Deployment", "controller",
			[]any{"spec", "template", "spec", "containers", 0, "imagePullPolicy"},
			"Never",
		},
		"strategic: the rest of the container stays": {
			[]Patch{{deployment, PatchSpec{StrategicPatch, "spec: {template: {spec: {containers: [{name: controller, imagePullPolicy: Never}]}}}"}}},
			"Deployment", "controller",
			[]any{"spec", "template", "spec", "containers", 0, "name"},
			"controller",
		},
		"strategic: a map is replaced": {
			[]Patch{{features, PatchSpec{StrategicPatch, "data: {$patch: replace, kubernetes.podspec-affinity: enabled}"}}},
			"ConfigMap", "config-features",
			[]any{"data"},
			map[string]any{"kubernetes.podspec-affinity": "enabled"},
		},
		"strategic: an object is replaced": {
			[]Patch{{features, PatchSpec{StrategicPatch, "$patch: replace\ndata: {a: b}"}}},
			"ConfigMap", "config-features", nil,
			map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"},
				"metadata": map[string]any{"name": "config-features", "namespace": "knative-serving"},
			},
		},
		"strategic: a field is removed": {
			[]Patch{{deployment, PatchSpec{StrategicPatch, "spec: {template: {spec: {affinity: null}}}"}}},
			"Deployment", "controller",
			[]any{"spec", "template", "spec", "affinity"},
			nil,
		},
		"merge": {
			[]Patch{{target("v1", "Service", "activator-service"), PatchSpec{MergePatch, `{"metadata": {"annotations": {"a": "b"}}}`}}},
			"Service", "activator-service",
			[]any{"metadata", "annotations"},
			map[string]any{"a": "b"},
		},
		"merge: on a kind that Kubernetes does not have": {
			[]Patch{{target("caching.internal.knative.dev/v1alpha1", "Image", "queue-proxy"), PatchSpec{MergePatch, "spec: {image: 'mirror.example.com/q:v1'}"}}},
			"Image", "queue-proxy",
			[]any{"spec", "image"},
			"mirror.example.com/q:v1",
		},
		"json": {
			[]Patch{{hpa, PatchSpec{JSONPatch, "- {op: replace, path: /spec/maxReplicas, value: 99}"}}},
			"HorizontalPodAutoscaler", "activator",
			[]any{"spec", "maxReplicas"},
			int64(99),
		},
		"json: on a CRD": {
			[]Patch{{
				target("apiextensions.k8s.io/v1", "CustomResourceDefinition", "services.serving.knative.dev"),
				PatchSpec{JSONPatch, `[{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]`},
			}},
			"CustomResourceDefinition", "services.serving.knative.dev",
			[]any{"metadata", "annotations"},
			map[string]any{"a": "b"},
		},
		"in order: each sees what the one before it did": {
			[]Patch{
				{features, PatchSpec{MergePatch, "data: {a: one}"}},
				{features, PatchSpec{JSONPatch, "[{op: test, path: /data/a, value: one}, {op: replace, path: /data/a, value: two}]"}},
			},
			"ConfigMap", "config-features",
			[]any{"data", "a"},
			"two",
		},
		"a Job by the name that it gets": {
			[]Patch{{target("batch/v1", "Job", "cleanup-serving-serving-1.23.0"), PatchSpec{MergePatch, "spec: {backoffLimit: 3}"}}},
			"Job", "cleanup-serving-serving-1.23.0",
			[]any{"spec", "backoffLimit"},
			int64(3),
		},
		"the Namespace, which is one": {
			[]Patch{{target("v1", "Namespace", "knative-serving"), PatchSpec{MergePatch, "metadata: {labels: {a: b}}"}}},
			"Namespace", "knative-serving",
			[]any{"metadata", "labels", "a"},
			"b",
		},
		"a policy of a webhook": {
			[]Patch{{webhook, PatchSpec{StrategicPatch, "webhooks: [{name: webhook.serving.knative.dev, failurePolicy: Ignore}]"}}},
			"MutatingWebhookConfiguration", "webhook.serving.knative.dev",
			[]any{"webhooks", 0, "failurePolicy"},
			"Ignore",
		},
		"a namespace that a webhook leaves alone": {
			[]Patch{{webhook, PatchSpec{StrategicPatch, "webhooks: [{name: webhook.serving.knative.dev, namespaceSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}]"}}},
			"MutatingWebhookConfiguration", "webhook.serving.knative.dev",
			[]any{"webhooks", 0, "namespaceSelector", "matchExpressions"},
			[]any{
				map[string]any{"key": "webhooks.knative.dev/exclude", "operator": "DoesNotExist"},
				map[string]any{"key": "a", "operator": "DoesNotExist"},
			},
		},
		"no fight: replicas that an HPA owns": {
			[]Patch{{activator, PatchSpec{StrategicPatch, "spec: {replicas: 4}"}}},
			"Deployment", "activator",
			[]any{"spec", "replicas"},
			nil,
		},
		"without its HPA the user decides": {
			[]Patch{{hpa, PatchSpec{StrategicPatch, "$patch: delete"}}, {activator, PatchSpec{StrategicPatch, "spec: {replicas: 4}"}}},
			"Deployment", "activator",
			[]any{"spec", "replicas"},
			int64(4),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := bundle(t, api.Serving, patchSpec(t, tc.patches...))
			got := at(t, object(t, b, tc.kind, tc.name).Object, tc.path...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%v of %s %q (-want +got):\n%s", tc.path, tc.kind, tc.name, diff)
			}
		})
	}
}

// A patch changes one object and leaves the others as they are.
func TestPatchTouchesOneObject(t *testing.T) {
	plain := bundle(t, api.Serving, "{}")
	patched := bundle(t, api.Serving, patchSpec(t, Patch{
		target("v1", "ConfigMap", "config-features"), PatchSpec{MergePatch, "data: {a: b}"},
	}))
	var changed []string
	before := map[ObjectID]string{}
	for _, o := range plain.Objects() {
		before[o.ID()] = string(o.JSON)
	}
	for _, o := range patched.Objects() {
		if before[o.ID()] != string(o.JSON) {
			changed = append(changed, o.ID().String())
		}
	}
	if diff := cmp.Diff([]string{"ConfigMap knative-serving/config-features"}, changed); diff != "" {
		t.Errorf("changed objects (-want +got):\n%s", diff)
	}
	if len(plain.Objects()) != len(patched.Objects()) {
		t.Errorf("%d objects, want %d", len(patched.Objects()), len(plain.Objects()))
	}
	again := bundle(t, api.Serving, "{}")
	if again.Digest != plain.Digest {
		t.Error("a patch reached another bundle")
	}
}

func TestPatchRemoves(t *testing.T) {
	hpa := Patch{target("autoscaling/v2", "HorizontalPodAutoscaler", "activator"), PatchSpec{StrategicPatch, "$patch: delete"}}
	b := bundle(t, api.Serving, patchSpec(t, hpa))
	if find(b, "HorizontalPodAutoscaler", "activator") != nil {
		t.Error("the object is still there")
	}
	for _, w := range b.Workloads {
		if w.Name == "activator" && (w.ScaledBy != "" || w.Replicas == nil || *w.Replicas != 1) {
			t.Errorf("the workload is %+v, want one replica and no scaler", w)
		}
	}
}

// A Secret of a release is created once; one that the user gives a value is applied.
func TestPatchedSecret(t *testing.T) {
	secret := target("v1", "Secret", "rabbitmq-source-key")
	spec := func(content string) string {
		return "source: {rabbitmq: {enabled: true}}\npatches: " +
			strings.TrimSuffix(strings.TrimPrefix(patchSpec(t, Patch{secret, PatchSpec{MergePatch, content}}), `{"patches":`), "}")
	}
	if o := object(t, bundle(t, api.Eventing, spec("stringData: {key.json: secret}")), "Secret", secret.Name); o.Class != Apply {
		t.Errorf("with a value its class is %s", o.Class)
	}
	if o := object(t, bundle(t, api.Eventing, spec("metadata: {labels: {a: b}}")), "Secret", secret.Name); o.Class != CreateOnly {
		t.Errorf("with a label only its class is %s", o.Class)
	}
}

func TestPatchRefuses(t *testing.T) {
	controller := target("apps/v1", "Deployment", "controller")
	cases := map[string]struct {
		patch Patch
		want  string
	}{
		"no match":                      {Patch{target("apps/v1", "Deployment", "none"), PatchSpec{MergePatch, "{}"}}, "no rendered object matches"},
		"another version of the API":    {Patch{target("autoscaling/v1", "HorizontalPodAutoscaler", "activator"), PatchSpec{MergePatch, "{}"}}, "no rendered object matches"},
		"another namespace":             {Patch{PatchTarget{"apps/v1", "Deployment", "controller", "default"}, PatchSpec{MergePatch, "{}"}}, "no rendered object matches"},
		"what is neither JSON nor YAML": {Patch{controller, PatchSpec{MergePatch, "a: b: c"}}, "neither JSON nor YAML"},
		"a JSON patch that is no list":  {Patch{controller, PatchSpec{JSONPatch, "{op: remove}"}}, "is no JSON patch"},
		"a path that is not there":      {Patch{controller, PatchSpec{JSONPatch, "[{op: remove, path: /spec/none}]"}}, "unable to remove nonexistent key"},
		"a test that fails":             {Patch{controller, PatchSpec{JSONPatch, "[{op: test, path: /kind, value: Pod}]"}}, "testing value /kind failed"},
		"a directive in a merge":        {Patch{controller, PatchSpec{MergePatch, "spec: {a: [{$patch: delete}]}"}}, "$patch is for patch.type strategic only"},
		"a directive in a JSON patch":   {Patch{controller, PatchSpec{JSONPatch, "[{op: add, path: /spec, value: {$patch: replace}}]"}}, "$patch is for patch.type strategic only"},
		"a directive that is no text":   {Patch{controller, PatchSpec{StrategicPatch, "$patch: 7"}}, "$patch must be a string"},
		"an object as a merge key":      {Patch{controller, PatchSpec{StrategicPatch, "spec: {template: {spec: {containers: [{name: {}}]}}}"}}, "a type that a strategic patch cannot merge"},
		"a list as a merge key":         {Patch{controller, PatchSpec{StrategicPatch, "spec: {template: {spec: {containers: [{name: controller, env: [{name: [a]}]}]}}}"}}, "a type that a strategic patch cannot merge"},
		"a strategic patch for a CRD":   {Patch{target("apiextensions.k8s.io/v1", "CustomResourceDefinition", "services.serving.knative.dev"), PatchSpec{StrategicPatch, "spec: {}"}}, "use json or merge"},
		"another name":                  {Patch{controller, PatchSpec{MergePatch, "metadata: {name: other}"}}, "must not change"},
		"another namespace inside":      {Patch{controller, PatchSpec{StrategicPatch, "metadata: {namespace: other}"}}, "must not change"},
		"another kind":                  {Patch{controller, PatchSpec{MergePatch, "kind: StatefulSet"}}, "must not change"},
		"another API version":           {Patch{controller, PatchSpec{JSONPatch, "[{op: replace, path: /apiVersion, value: apps/v1beta2}]"}}, "must not change"},
		"a replacement with a name":     {Patch{controller, PatchSpec{StrategicPatch, "{$patch: replace, metadata: {name: other}}"}}, "must not change"},
		"metadata that is no object":    {Patch{controller, PatchSpec{StrategicPatch, "{$patch: replace, metadata: [a]}"}}, "metadata must be an object"},
		"no kind":                       {Patch{controller, PatchSpec{MergePatch, "kind: null"}}, "is no Kubernetes object"},
		"a merge that is null":          {Patch{controller, PatchSpec{MergePatch, "null"}}, ""},
		"a merge that is a list":        {Patch{controller, PatchSpec{MergePatch, "[a]"}}, ""},
		"the end of a CRD":              {Patch{target("apiextensions.k8s.io/v1", "CustomResourceDefinition", "services.serving.knative.dev"), PatchSpec{StrategicPatch, "$patch: delete"}}, "a CustomResourceDefinition cannot be left out"},
		"the end of the Namespace":      {Patch{target("v1", "Namespace", "knative-serving"), PatchSpec{StrategicPatch, "$patch: delete"}}, "a Namespace cannot be left out"},
		"the end of the webhook":        {Patch{target("apps/v1", "Deployment", "webhook"), PatchSpec{StrategicPatch, "$patch: delete"}}, "the webhook of Knative Serving cannot be left out"},
		"copies that multiply":          {Patch{controller, PatchSpec{JSONPatch, copies()}}, "accumulated size"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := shared.Render(context.Background(), install(t, api.Serving, patchSpec(t, tc.patch)), DefaultOptions(api.ModeManifestWork))
			if ReasonOf(err) != api.ReasonPatchFailed || !containsText(err, tc.want) || !containsText(err, "spec.patches[0]") {
				t.Errorf("Render: %s: %v; want %s with %q", ReasonOf(err), err, api.ReasonPatchFailed, tc.want)
			}
		})
	}
	t.Run("a label that is none", func(t *testing.T) {
		spec := patchSpec(t, Patch{controller, PatchSpec{MergePatch, "metadata: {labels: {a b: c}}"}})
		_, err := shared.Render(context.Background(), install(t, api.Serving, spec), DefaultOptions(api.ModeManifestWork))
		if ReasonOf(err) != api.ReasonInvalidSpec || !containsText(err, `Deployment "knative-serving/controller"`) {
			t.Errorf("Render: %v", err)
		}
	})
}

// copies is a small JSON patch that would make a large object: each operation doubles a list.
func copies() string {
	operations := []string{`{"op": "add", "path": "/x", "value": ["` + strings.Repeat("x", 1000) + `"]}`}
	for range 40 {
		operations = append(operations, `{"op": "copy", "from": "/x", "path": "/x/-"}`)
	}
	return "[" + strings.Join(operations, ",") + "]"
}
