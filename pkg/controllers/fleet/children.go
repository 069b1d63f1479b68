// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// templates holds the decoded templates of a KnativeFleet.
type templates struct {
	// specs holds the spec of each component that the KnativeFleet has.
	specs    map[api.Component]map[string]any
	metadata map[api.Component]fleetv1alpha1.TemplateMetadata
	// revision is the hash of the templates.
	revision string
}

// components lists the components of the KnativeFleet in a stable order.
func (t *templates) components() []api.Component {
	var out []api.Component
	for _, c := range api.Components() {
		if _, ok := t.specs[c]; ok {
			out = append(out, c)
		}
	}
	return out
}

func readTemplates(spec *fleetv1alpha1.KnativeFleetSpec) (*templates, *problem) {
	out := &templates{specs: map[api.Component]map[string]any{}, metadata: map[api.Component]fleetv1alpha1.TemplateMetadata{}}
	hashed := map[string]any{}
	for component, template := range map[api.Component]*fleetv1alpha1.Template{api.Serving: spec.Serving, api.Eventing: spec.Eventing} {
		if template == nil {
			continue
		}
		content := map[string]any{}
		if len(template.Spec.Raw) > 0 {
			if err := utiljson.Unmarshal(template.Spec.Raw, &content); err != nil {
				return nil, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf("the template of %s cannot be read; correct the template: %v", component.Kind(), err)}
			}
		}
		if _, found := content["clusterProfileRef"]; found {
			return nil, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"the template of %s sets clusterProfileRef, which the KnativeFleet sets for each cluster; remove the field", component.Kind())}
		}
		if no := checkMetadata(component, template.Metadata); no != nil {
			return nil, no
		}
		out.specs[component], out.metadata[component] = content, template.Metadata
		hashed[string(component)] = map[string]any{"spec": content, "metadata": template.Metadata}
	}
	var err error
	if out.revision, err = hashJSON(hashed); err != nil {
		return nil, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf("the templates cannot be read; correct the templates: %v", err)}
	}
	return out, nil
}

// checkMetadata refuses the keys that the KnativeFleet and the other controllers write on a child: a template would overwrite the value
// with each pass.
func checkMetadata(component api.Component, metadata fleetv1alpha1.TemplateMetadata) *problem {
	for _, key := range slices.Sorted(maps.Keys(mergeMaps(metadata.Labels, metadata.Annotations))) {
		if revision.IsReservedKey(key) {
			return &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"the template of %s sets %s, which the manager sets for each child; remove the key", component.Kind(), message.Quote(key))}
		}
	}
	return nil
}

// hashJSON returns a hash of the JSON of a value. Maps are encoded in the order of their keys.
func hashJSON(value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("cannot encode JSON: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// newChild returns the resource of a component on a cluster as the KnativeFleet writes the resource.
func newChild(fleet *fleetv1alpha1.KnativeFleet, t *templates, component api.Component, cluster string, now time.Time) *unstructured.Unstructured {
	child := &unstructured.Unstructured{Object: map[string]any{}}
	child.SetGroupVersionKind(component.Resource().GroupVersion().WithKind(component.Kind()))
	child.SetNamespace(fleet.Namespace)
	child.SetName(cluster)
	applyTemplate(child, fleet, t, component)
	stampRevision(child, t.revision, now)
	return child
}

// applyTemplate sets the spec, the labels, the annotations and the owner of a child. Labels and annotations of others stay.
func applyTemplate(child *unstructured.Unstructured, fleet *fleetv1alpha1.KnativeFleet, t *templates, component api.Component) {
	spec := runtime.DeepCopyJSON(t.specs[component])
	spec["clusterProfileRef"] = map[string]any{"namespace": fleet.Namespace, "name": child.GetName()}
	child.Object["spec"] = spec
	revision.ApplyMetadata(t.metadata[component], child)
	child.SetLabels(mergeMaps(child.GetLabels(), map[string]string{api.FleetLabel: fleet.Name}))
	if !metav1.IsControlledBy(child, fleet) {
		child.SetOwnerReferences(append(child.GetOwnerReferences(), ownerReference(fleet)))
	}
}

// ownerReference does not block the deletion of the owner: a hub may ask for a further permission to block a deletion.
func ownerReference(fleet *fleetv1alpha1.KnativeFleet) metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{
		APIVersion: fleetv1alpha1.Group + "/" + fleetv1alpha1.Version, Kind: fleetv1alpha1.Kind, Name: fleet.Name, UID: fleet.UID, Controller: &controller,
	}
}

// stampRevision records the revision of a child and the time of the write.
func stampRevision(child *unstructured.Unstructured, revision string, now time.Time) {
	annotations := mergeMaps(child.GetAnnotations(), map[string]string{
		api.FleetRevisionAnnotation: revision, api.FleetUpdatedAnnotation: now.UTC().Format(time.RFC3339),
	})
	delete(annotations, api.FleetAdoptAnnotation)
	delete(annotations, api.FleetStoredSpecAnnotation)
	child.SetAnnotations(annotations)
}

func mergeMaps(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// isUnchanged reports whether a child of the revision is as the KnativeFleet wrote the child. Labels and annotations of others do not
// count.
func isUnchanged(child *unstructured.Unstructured, fleet *fleetv1alpha1.KnativeFleet, t *templates, component api.Component) bool {
	metadata, labels := t.metadata[component], child.GetLabels()
	return labels[api.FleetLabel] == fleet.Name && containsAll(labels, metadata.Labels) && containsAll(child.GetAnnotations(), metadata.Annotations) &&
		(hasSpec(child, t.specs[component]) || isStoredSpec(child))
}

func containsAll(all, some map[string]string) bool {
	for key, value := range some {
		if got, found := all[key]; !found || got != value {
			return false
		}
	}
	return true
}

// hasSpec reports whether the spec of a child is the spec of the template with the reference.
func hasSpec(child *unstructured.Unstructured, template map[string]any) bool {
	spec, _ := child.Object["spec"].(map[string]any)
	if len(spec) != len(template)+1 {
		return false
	}
	for key, value := range template {
		if !reflect.DeepEqual(spec[key], value) {
			return false
		}
	}
	_, refers := spec["clusterProfileRef"] // the API server keeps the reference
	return refers
}

// isStoredSpec reports whether the API server stored another spec than the KnativeFleet wrote, because the schema has defaults or lacks
// fields, and whether the child still has that spec.
func isStoredSpec(child *unstructured.Unstructured) bool {
	recorded, found := child.GetAnnotations()[api.FleetStoredSpecAnnotation]
	if !found {
		return false
	}
	hash, err := hashJSON(child.Object["spec"])
	return err == nil && recorded == hash
}
