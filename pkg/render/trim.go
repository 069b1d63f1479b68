// Copyright Contributors to the Open Cluster Management project

package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// trimDescriptions drops the descriptions in the schemas of CRDs.
func trimDescriptions(d *draft) error {
	if d.options.KeepDescriptions {
		return nil
	}
	d.forEachObject(func(u *unstructured.Unstructured) {
		if !isCRD(u) {
			return
		}
		versions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "versions")
		list, _ := versions.([]any)
		for _, v := range list {
			m, _ := v.(map[string]any)
			schema, _ := m["schema"].(map[string]any)
			trimSchema(schema["openAPIV3Schema"])
		}
	})
	return nil
}

// trimSchema follows the structure of a schema, because a property may have the name "description".
func trimSchema(node any) {
	schema, ok := node.(map[string]any)
	if !ok {
		return
	}
	delete(schema, "description")
	for _, field := range []string{"properties", "patternProperties", "definitions", "dependencies"} {
		named, _ := schema[field].(map[string]any)
		for _, s := range named {
			trimSchema(s)
		}
	}
	for _, field := range []string{"items", "additionalProperties", "additionalItems", "not"} {
		trimSchema(schema[field])
	}
	for _, field := range []string{"items", "allOf", "anyOf", "oneOf"} {
		list, _ := schema[field].([]any)
		for _, s := range list {
			trimSchema(s)
		}
	}
}

// trimExamples drops the _example key of Knative's ConfigMaps and the checksum annotation of the key.
func trimExamples(d *draft) error {
	const example, checksum = "_example", "knative.dev/example-checksum"
	if d.options.KeepExamples {
		return nil
	}
	d.forEachObject(func(u *unstructured.Unstructured) {
		if !isKind(u, "", "ConfigMap") || d.additional[objectIDOf(u)] {
			return
		}
		data, _ := u.Object["data"].(map[string]any)
		if _, found := data[example]; !found {
			return
		}
		delete(data, example)
		if len(data) == 0 {
			delete(u.Object, "data")
		}
		annotations := u.GetAnnotations()
		if _, found := annotations[checksum]; !found {
			return
		}
		delete(annotations, checksum)
		u.SetAnnotations(annotations)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		}
	})
	return nil
}
