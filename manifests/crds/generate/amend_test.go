// Copyright Contributors to the Open Cluster Management project

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// small is as much of a CustomResourceDefinition as amend looks at.
const small = `
metadata: {annotations: {from: controller-gen}}
spec:
  versions:
  - name: v1beta1
    additionalPrinterColumns: [{name: Target Cluster, type: string, jsonPath: .spec.clusterProfileRef.name}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              namespace: {type: object, description: upstream's, properties: {labels: {type: object}}}
            x-kubernetes-validations: [{rule: upstream's}]
          status:
            type: object
            properties:
              version: {type: string}
`

// counts is the schema of status.rollout.
func counts() map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{"total": map[string]any{"type": "integer"}}}
}

func TestAmend(t *testing.T) {
	crd := parse(t, []byte(small))
	if err := amendCRD(crd, counts()); err != nil {
		t.Fatal(err)
	}
	version := versionOf(t, crd)
	if diff := cmp.Diff([]string{"Version", "Ready", "Reason", "Target Cluster", "Age"}, columns(t, version)); diff != "" {
		t.Errorf("printer columns (-want +got):\n%s", diff)
	}
	for _, path := range [][]string{
		{"schema", "openAPIV3Schema", "properties", "spec", "properties", "namespaceConfiguration", "properties", "labels"},
		{"schema", "openAPIV3Schema", "properties", "spec", "properties", "namespace", "properties", "labels"},
		{"schema", "openAPIV3Schema", "properties", "spec", "properties", "patches", "items"},
		{"schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-validations"},
		{"schema", "openAPIV3Schema", "x-kubernetes-validations"},
		{"schema", "openAPIV3Schema", "properties", "status", "properties", "rollout", "properties", "total"},
		{"schema", "openAPIV3Schema", "properties", "status", "properties", "version"},
	} {
		if _, found, err := unstructured.NestedFieldNoCopy(version, path...); !found || err != nil {
			t.Errorf("%v: found %t, error %v", path, found, err)
		}
	}
	if description, _, _ := unstructured.NestedString(version, "schema", "openAPIV3Schema", "properties", "spec",
		"properties", "namespace", "description"); description != "upstream's" {
		t.Errorf("spec.namespace has description %q, want upstream's", description)
	}
}

// Texts, lists and maps of a spec are bounded; what upstream bounds, and what is bounded by its type, stays.
func TestBoundFields(t *testing.T) {
	fields := parse(t, []byte(`
version: {type: string}
config: {type: object, additionalProperties: {type: object, additionalProperties: {type: string}}}
patches: {type: array, items: {type: object, properties: {content: {type: string}, type: {type: string, enum: [json]}}}}
workloads: {type: array, maxItems: 7, items: {type: object, properties: {replicas: {type: integer}, name: {type: string, maxLength: 3}}}}
`))
	boundFields(fields)
	data, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	want := parse(t, []byte(`
version: {type: string, maxLength: 16384}
config:
  type: object
  maxProperties: 1024
  additionalProperties: {type: object, maxProperties: 1024, additionalProperties: {type: string, maxLength: 1048576}}
patches:
  type: array
  maxItems: 100
  items: {type: object, properties: {content: {type: string, maxLength: 65536}, type: {type: string, enum: [json]}}}
workloads: {type: array, maxItems: 7, items: {type: object, properties: {replicas: {type: integer}, name: {type: string, maxLength: 3}}}}
`))
	if diff := cmp.Diff(want, parse(t, data)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestBoundDurations holds that the schema accepts only texts that metav1.Duration reads.
func TestBoundDurations(t *testing.T) {
	schema := parse(t, []byte(`{versions: [{properties: {all: {properties: {minSuccessTime: {type: string}}}, progressive: {properties: {minSuccessTime: {type: string}}}}}]}`))
	if count := boundDurations(schema); count != 2 {
		t.Errorf("%d durations have bounds, want 2", count)
	}
	pattern := regexp.MustCompile(durationPattern)
	for text, want := range map[string]bool{
		"0": true, "0s": true, "90m": true, "2h30m": true, "1.5h": true, "999999h999999h": true,
		"": false, "10": false, "1d": false, "5 min": false, "-1h": false, "9999999h": false, "999999h999999h999999h": false,
	} {
		accepted := pattern.MatchString(text) && len(text) <= int(durationLength)
		if _, err := time.ParseDuration(text); accepted != want || accepted && err != nil {
			t.Errorf("%q is accepted: %t, and read with error %v", text, accepted, err)
		}
	}
}

func TestSchemaAnnotationFollowsTheSpec(t *testing.T) {
	schema := func(change func(crd map[string]any)) string {
		crd := parse(t, []byte(small))
		change(crd)
		if err := amendCRD(crd, counts()); err != nil {
			t.Fatal(err)
		}
		value, _, _ := unstructured.NestedString(crd, "metadata", "annotations", schemaAnnotation)
		return value
	}
	first := schema(func(map[string]any) {})
	if same := schema(func(crd map[string]any) { crd["metadata"] = map[string]any{} }); first == "" || same != first {
		t.Errorf("schema is %q and, with other metadata, %q", first, same)
	}
	other := schema(func(crd map[string]any) { _ = unstructured.SetNestedField(crd, "x", "spec", "group") })
	if other == first {
		t.Errorf("schema is %q for two different specs", other)
	}
}

func TestAmendRefuses(t *testing.T) {
	for name, crd := range map[string]string{
		"no version":        `{spec: {versions: []}}`,
		"two versions":      `{spec: {versions: [{name: v1}, {name: v2}]}}`,
		"no spec.namespace": `{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {}}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := amendCRD(parse(t, []byte(crd)), counts()); err == nil {
				t.Error("amend did not fail")
			}
		})
	}
}

// TestPatchTypes holds the schema against the code that decodes what the schema accepts.
func TestPatchTypes(t *testing.T) {
	schema := parse(t, patchesSchema)
	got, _, err := unstructured.NestedStringSlice(schema, "items", "properties", "patch", "properties", "type", "enum")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{string(render.JSONPatch), string(render.MergePatch), string(render.StrategicPatch)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types of patches (-want +got):\n%s", diff)
	}
}

func TestChartHasAll(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(target), "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := parse(t, data)
		kind, _, _ := unstructured.NestedString(crd, "spec", "names", "kind")
		kinds[kind] = true
		want := 5
		if kind == "KnativeFleet" {
			want = 6
		}
		if got := len(columns(t, versionOf(t, crd))); got != want {
			t.Errorf("%s has %d printer columns, want %d", kind, got, want)
		}
	}
	if diff := cmp.Diff(map[string]bool{"KnativeServing": true, "KnativeEventing": true, "KnativeFleet": true}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func parse(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func versionOf(t *testing.T, crd map[string]any) map[string]any {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("%d versions, error %v", len(versions), err)
	}
	version, ok := versions[0].(map[string]any)
	if !ok {
		t.Fatalf("version is %T", versions[0])
	}
	return version
}

func columns(t *testing.T, version map[string]any) []string {
	t.Helper()
	list, _, err := unstructured.NestedSlice(version, "additionalPrinterColumns")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list {
		if column, ok := c.(map[string]any); ok {
			name, _, _ := unstructured.NestedString(column, "name")
			names = append(names, name)
		}
	}
	return names
}
