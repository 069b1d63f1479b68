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

// schemaAnnotation identifies the version of a CustomResourceDefinition. Helm never updates the crds directory of a chart,
// so that the chart's notes compare the hub's annotation with the chart's and say how to update.
const schemaAnnotation = api.Prefix + "schema"

// annotationsLimit is the number of bytes that the annotations of an object may have. `kubectl apply` without --server-side
// keeps the whole object in an annotation. Both CustomResourceDefinitions are well below the limit with every description,
// so that the generator trims no description.
const annotationsLimit = 256 * 1024

//go:embed patches.yaml
var patchesSchema []byte

// amendCRD adds to the CustomResourceDefinition of controller-gen:
//   - printer columns with version and health, besides the target;
//   - spec.namespaceConfiguration, the name of spec.namespace in Knative's documentation;
//   - spec.patches;
//   - the bounds of package api on texts, lists and maps of the spec;
//   - a rule that keeps spec.clusterProfileRef immutable also when the spec itself is added or removed;
//   - status.rollout, with the schema of the KnativeFleet;
//   - an annotation that changes with the spec.
//
// The rest stays, including upstream's validation rules.
func amendCRD(crd, rollout map[string]any) error {
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
	if err := addRollout(version, rollout); err != nil {
		return err
	}
	if err := unstructured.SetNestedSlice(crd, versions, "spec", "versions"); err != nil {
		return err
	}
	if err := annotateSchema(crd); err != nil {
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
	spec, _, err := unstructured.NestedFieldNoCopy(version, properties...)
	if err != nil {
		return err
	}
	boundFields(spec)
	return unstructured.SetNestedSlice(version, rootRules(), "schema", "openAPIV3Schema", "x-kubernetes-validations")
}

// addRollout adds the schema of the counts that a resource has which configures many clusters.
func addRollout(version, rollout map[string]any) error {
	status := []string{"schema", "openAPIV3Schema", "properties", "status", "properties"}
	if _, found, err := unstructured.NestedMap(version, status...); err != nil || !found {
		return errors.Join(errors.New("it has no status"), err)
	}
	return unstructured.SetNestedMap(version, rollout, append(status, "rollout")...)
}

// rolloutSchema returns the schema of status.rollout of the CustomResourceDefinition of KnativeFleets.
func rolloutSchema(crd map[string]any) (map[string]any, error) {
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil || len(versions) == 0 {
		return nil, errors.Join(errors.New("it has no version"), err)
	}
	version, _ := versions[0].(map[string]any)
	rollout, found, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "status", "properties", "rollout")
	if err != nil || !found {
		return nil, errors.Join(errors.New("it has no status.rollout"), err)
	}
	return rollout, nil
}

// durationPattern accepts the texts that metav1.Duration reads: OCM's type of spec.rolloutStrategy has no pattern for minSuccessTime.
// durationLength keeps the text within 292 years.
const (
	durationPattern = `^(0|([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h))+)$`
	durationLength  = int64(16)
)

// amendFleetCRD adds the bounds on minSuccessTime, and the annotation that changes with the spec.
func amendFleetCRD(crd map[string]any) error {
	if boundDurations(crd) == 0 {
		return errors.New("it has no minSuccessTime")
	}
	if err := annotateSchema(crd); err != nil {
		return err
	}
	return checkSize(crd)
}

// boundDurations sets the bounds on each minSuccessTime below a schema, and returns their number.
func boundDurations(schema any) int {
	count := 0
	switch s := schema.(type) {
	case []any:
		for _, item := range s {
			count += boundDurations(item)
		}
	case map[string]any:
		for name, field := range s {
			if duration, ok := field.(map[string]any); ok && name == "minSuccessTime" {
				duration["pattern"], duration["maxLength"] = durationPattern, durationLength
				count++
				continue
			}
			count += boundDurations(field)
		}
	}
	return count
}

// boundFields sets the manager's bounds on every text, list and map of a spec.
func boundFields(spec any) {
	fields, _ := spec.(map[string]any)
	for name, schema := range fields {
		switch name {
		case "config":
			boundSchema(schema, api.MaxSpecBytes)
		case "patches":
			boundSchema(schema, api.MaxPatchBytes)
			setLimit(schema, "maxItems", api.MaxPatches)
		default:
			boundSchema(schema, api.MaxTextBytes)
		}
	}
}

// boundSchema sets bounds within a schema; upstream's own bounds stay.
func boundSchema(schema any, text int64) {
	s, _ := schema.(map[string]any)
	switch s["type"] {
	case "string":
		if s["enum"] == nil && s["maxLength"] == nil {
			s["maxLength"] = text
		}
	case "array":
		if s["maxItems"] == nil {
			s["maxItems"] = int64(api.MaxListItems)
		}
		boundSchema(s["items"], text)
	case "object":
		if _, ok := s["additionalProperties"].(map[string]any); ok && s["maxProperties"] == nil {
			s["maxProperties"] = int64(api.MaxMapKeys)
		}
		boundSchema(s["additionalProperties"], text)
		properties, _ := s["properties"].(map[string]any)
		for _, property := range properties {
			boundSchema(property, text)
		}
	}
}

func setLimit(schema any, name string, limit int64) {
	if s, ok := schema.(map[string]any); ok {
		s[name] = limit
	}
}

func printerColumns() []any {
	const ready = `.status.conditions[?(@.type=="Ready")]`
	return []any{
		printerColumn("Version", "string", ".status.version"),
		printerColumn("Ready", "string", ready+".status"),
		printerColumn("Reason", "string", ready+".reason"),
		printerColumn("Target Cluster", "string", ".spec.clusterProfileRef.name"),
		printerColumn("Age", "date", ".metadata.creationTimestamp"),
	}
}

func printerColumn(name, kind, path string) map[string]any {
	return map[string]any{"name": name, "type": kind, "jsonPath": path}
}

// rootRules closes a gap of upstream's rules: rules on spec do not run when the old or the new object has no spec. A rule
// on the object always has the old object on an update. The rule leaves objects with both specs to upstream's rules, so
// that a fault is reported once.
func rootRules() []any {
	return []any{map[string]any{
		"rule": "(has(self.spec) && has(oldSelf.spec)) || " +
			"(has(self.spec) && has(self.spec.clusterProfileRef)) == " +
			"(has(oldSelf.spec) && has(oldSelf.spec.clusterProfileRef))",
		"message":   "spec.clusterProfileRef cannot be added or removed after creation",
		"fieldPath": ".spec.clusterProfileRef",
	}}
}

func annotateSchema(crd map[string]any) error {
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
