// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Pins are the versions that specs without one were pinned to.
type Pins struct {
	Component api.Component
	// Revisions has Indexers.
	Revisions  cache.Indexer
	References *References
}

// Pin is what the same spec was pinned to before, as long as a cluster is to have it: a spec that comes back in the middle
// of a rollout must not mean something else to the clusters that never left it. It is empty when there is no such pin.
func (p *Pins) Pin(config *unstructured.Unstructured) (string, error) {
	name := types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
	hash, err := Hash(config)
	if err != nil {
		return "", err
	}
	o, exists, err := p.Revisions.GetByKey(name.Namespace + "/" + Name(p.Component, name.Name, hash))
	if err != nil || !exists {
		return "", err
	}
	r, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return "", fmt.Errorf("cannot read a revision of %s %q: it is a %T", p.Component.Kind(), name, o)
	}
	pin := r.Annotations[api.PinnedVersionAnnotation]
	if pin == "" {
		return "", nil
	}
	referred, err := p.References.Of(p.Component, name)
	if err != nil || !referred.Desired[hash] {
		return "", err
	}
	return pin, nil
}
