// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// item is one object of a bundle for one cluster.
type item struct {
	render.Object
	id     render.ObjectID
	stage  stage
	digest string
}

// items are the objects of a bundle as they should be under an anchor.
func items(b *render.Bundle, anchor types.UID) []item {
	objects := b.Objects()
	out := make([]item, 0, len(objects))
	for _, o := range objects {
		out = append(out, item{
			Object: o, id: o.ID(), stage: stageOf(o.GroupVersionKind().GroupKind()),
			digest: digestOf(o.JSON, []byte(anchor), []byte(b.Component)),
		})
	}
	return out
}

func digestOf(parts ...[]byte) string {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write(p)
		sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// entry is the record of the item before it is applied.
func (it *item) entry() entry {
	return entry{
		Group: it.id.Group, Version: it.Resource.Version, Resource: it.Resource.Resource,
		Kind: it.id.Kind, Namespace: it.id.Namespace, Name: it.id.Name,
	}
}

// object is the object with our label and, where it can have one, the anchor as its owner.
func (it *item) object(component api.Component, a *anchor) *unstructured.Unstructured {
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
	if a != nil && it.id.Namespace == a.Namespace { // owners are of the same namespace
		metadata["ownerReferences"] = []any{map[string]any{
			"apiVersion": corev1.SchemeGroupVersion.String(), "kind": "ConfigMap", "name": a.Name, "uid": string(a.UID),
			"controller": true,
		}}
	}
	return out
}

func (it *item) json(component api.Component, a *anchor) ([]byte, error) {
	data, err := json.Marshal(it.object(component, a).Object)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", it.id, err)
	}
	return data, nil
}

// bareOf is an object's identity.
func bareOf(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(u.GroupVersionKind())
	out.SetNamespace(u.GetNamespace())
	out.SetName(u.GetName())
	return out
}

// kindsOf are the kinds that the CRDs among the items define, by the versions in which they are served.
func kindsOf(batch []item) map[schema.GroupVersion]map[string]bool {
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
