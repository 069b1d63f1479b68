// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// desiredObject is one object of a bundle for one cluster.
type desiredObject struct {
	render.Object
	id     render.ObjectID
	stage  render.Stage
	digest string
}

// desiredObjects returns the objects of a bundle. The digests depend on the anchor, which owns the objects.
func desiredObjects(b *render.Bundle, anchor types.UID) []desiredObject {
	objects := b.Objects()
	out := make([]desiredObject, 0, len(objects))
	for _, o := range objects {
		out = append(out, newDesiredObject(o, b.Component, anchor))
	}
	return out
}

func newDesiredObject(o render.Object, component api.Component, anchor types.UID) desiredObject {
	return desiredObject{
		Object: o, id: o.ID(), stage: render.KindOf(o.GroupVersionKind().GroupKind()).Stage,
		digest: clustercache.Digest(o.JSON, []byte(anchor), []byte(component)),
	}
}

// inventoryItem returns the record of the object before the first apply.
func (it *desiredObject) inventoryItem() inventory.Item {
	return inventory.Item{
		Group: it.id.Group, Version: it.Resource.Version, Resource: it.Resource.Resource,
		Kind: it.id.Kind, Namespace: it.id.Namespace, Name: it.id.Name,
	}
}

// manifest returns the object with our component label and, in the namespace of the anchor, with the anchor as an owner. The anchor is
// not the controller: an adopted object may have the anchor of the Knative Operator as its controller, and an object has one at most.
func (it *desiredObject) manifest(component api.Component, a *inventory.Anchor) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: maps.Clone(it.Unstructured.Object)}
	metadata, _ := out.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	out.Object["metadata"] = metadata
	have, _ := metadata["labels"].(map[string]any)
	labels := maps.Clone(have)
	if labels == nil {
		labels = map[string]any{}
	}
	labels[api.ComponentLabel] = string(component)
	metadata["labels"] = labels
	if a != nil && it.id.Namespace == a.Namespace { // Kubernetes allows only owners of the same namespace
		metadata["ownerReferences"] = []any{map[string]any{
			"apiVersion": corev1.SchemeGroupVersion.String(), "kind": "ConfigMap", "name": a.Name, "uid": string(a.UID),
		}}
	}
	return out
}

func (it *desiredObject) encodeManifest(component api.Component, a *inventory.Anchor) ([]byte, error) {
	data, err := json.Marshal(it.manifest(component, a).Object)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", it.id, err)
	}
	return data, nil
}

// identityOf returns an object that has only kind, namespace and name.
func identityOf(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(u.GroupVersionKind())
	out.SetNamespace(u.GetNamespace())
	out.SetName(u.GetName())
	return out
}

// definedKinds returns the kinds that the CRDs among the objects define, by the versions that serve the kinds.
func definedKinds(batch []desiredObject) map[schema.GroupVersion]map[string]bool {
	out := map[schema.GroupVersion]map[string]bool{}
	for _, it := range batch {
		if it.id.Kind != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(it.Unstructured.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(it.Unstructured.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(it.Unstructured.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			if served, _ := version["served"].(bool); !served {
				continue
			}
			name, _ := version["name"].(string)
			gv := schema.GroupVersion{Group: group, Version: name}
			if out[gv] == nil {
				out[gv] = map[string]bool{}
			}
			out[gv][kind] = true
		}
	}
	return out
}
