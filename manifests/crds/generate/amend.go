// Copyright Contributors to the Open Cluster Management project

package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// schemaAnnotation tells one version of a CustomResourceDefinition from another. Helm never changes what it has once
// installed from a chart's crds directory, so the chart's notes compare the hub's with its own and tell what to do.
const schemaAnnotation = api.Prefix + "schema"

// annotationsLimit is how many bytes the annotations of an object may have. `kubectl apply` without --server-side
// keeps the whole object in one, so a larger CustomResourceDefinition cannot be applied that way. Both are well below
// it with every description in place, so no description is trimmed here.
const annotationsLimit = 256 * 1024

//go:embed patches.yaml
var patchesSchema []byte

// amend makes the CustomResourceDefinition that controller-gen wrote the one of our hub:
//   - printer columns that tell version and health, not only the target;
//   - spec.namespaceConfiguration, the name under which Knative's documentation has spec.namespace;
//   - spec.patches;
//   - spec.clusterProfileRef stays immutable also when the spec itself comes or goes;
//   - an annotation that changes with the spec.
//
// The rest, upstream's own validation rules included, stays as it is.
func amend(crd map[string]any) error {
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil {
		return err
	}
	if len(versions) != 1 {
		return fmt.Errorf("it has %d versions, want 1", len(versions))
	}
	version, ok := versions[0].(map[string]any)
	if !ok {
		return errors.New("its version is no object")
	}
	version["additionalPrinterColumns"] = printerColumns()
	if err := amendSchema(version); err != nil {
		return err
	}
	if err := unstructured.SetNestedSlice(crd, versions, "spec", "versions"); err != nil {
		return err
	}
	if err := annotate(crd); err != nil {
		return err
	}
	return checkSize(crd)
}

func amendSchema(version map[string]any) error {
	properties := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
	namespace, found, err := unstructured.NestedMap(version, append(properties, "namespace")...)
	if err != nil || !found {
		return errors.Join(errors.New("it has no spec.namespace"), err)
	}
	namespace["description"] = "NamespaceConfiguration is another name of namespace; if both are set they must be equal."
	if err := unstructured.SetNestedMap(version, namespace, append(properties, "namespaceConfiguration")...); err != nil {
		return err
	}
	var patches map[string]any
	if err := yaml.Unmarshal(patchesSchema, &patches); err != nil {
		return err
	}
	if err := unstructured.SetNestedMap(version, patches, append(properties, "patches")...); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(version, rootRules(), "schema", "openAPIV3Schema", "x-kubernetes-validations")
}

func printerColumns() []any {
	const ready = `.status.conditions[?(@.type=="Ready")]`
	return []any{
		column("Version", "string", ".status.version"),
		column("Ready", "string", ready+".status"),
		column("Reason", "string", ready+".reason"),
		column("Target Cluster", "string", ".spec.clusterProfileRef.name"),
		column("Age", "date", ".metadata.creationTimestamp"),
	}
}

func column(name, kind, path string) map[string]any {
	return map[string]any{"name": name, "type": kind, "jsonPath": path}
}

// rootRules closes the hole that upstream's rules leave: they sit on spec, so they do not run when the object had or
// has no spec at all. This one sits on the object, where the old value always exists on an update; it leaves the case
// that both specs exist to upstream's rules, so that a fault is told once.
func rootRules() []any {
	return []any{map[string]any{
		"rule": "(has(self.spec) && has(oldSelf.spec)) || " +
			"(has(self.spec) && has(self.spec.clusterProfileRef)) == " +
			"(has(oldSelf.spec) && has(oldSelf.spec.clusterProfileRef))",
		"message":   "spec.clusterProfileRef cannot be added or removed after creation",
		"fieldPath": ".spec.clusterProfileRef",
	}}
}

func annotate(crd map[string]any) error {
	spec, err := json.Marshal(crd["spec"])
	if err != nil {
		return err
	}
	sum := sha256.Sum256(spec)
	return unstructured.SetNestedField(crd, hex.EncodeToString(sum[:8]), "metadata", "annotations", schemaAnnotation)
}

func checkSize(crd map[string]any) error {
	data, err := json.Marshal(crd)
	if err != nil {
		return err
	}
	if len(data) > annotationsLimit {
		return fmt.Errorf("it has %d bytes, `kubectl apply` carries %d at most: trim descriptions", len(data), annotationsLimit)
	}
	return nil
}
