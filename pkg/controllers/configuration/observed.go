// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observations holds the specs that events brought and that are not recorded yet, by resource. The first pass after a start gets
// an event for every resource.
type observations struct {
	mu sync.Mutex
	// specs lists the objects of the events, the oldest first.
	specs map[types.NamespacedName][]*unstructured.Unstructured
	// unchecked has every resource whose revisions changed, or whose latest pass failed.
	unchecked map[types.NamespacedName]bool
}

// addSpec adds the object of an event. Of more than historyLimit objects, which come while the hub refuses the records, the newest stay:
// the author of a resource decides how many and how large the objects are.
func (o *observations) addSpec(config *unstructured.Unstructured) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.specs == nil {
		o.specs = map[types.NamespacedName][]*unstructured.Unstructured{}
	}
	name := client.ObjectKeyFromObject(config)
	specs := append(o.specs[name], config)
	o.specs[name] = slices.Clone(specs[max(0, len(specs)-historyLimit):])
}

// removeSpecs forgets all objects of a resource.
func (o *observations) removeSpecs(name types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.specs, name)
	delete(o.unchecked, name)
}

// markUnchecked requests a comparison of the revisions with the resource as it is.
func (o *observations) markUnchecked(name types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unchecked == nil {
		o.unchecked = map[types.NamespacedName]bool{}
	}
	o.unchecked[name] = true
}

// takeUnchecked withdraws and reports the request of markUnchecked. A request that comes during the pass counts for the next pass.
func (o *observations) takeUnchecked(name types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	unchecked := o.unchecked[name]
	delete(o.unchecked, name)
	return unchecked
}

// listSpecs returns the objects that are not recorded, the oldest first.
func (o *observations) listSpecs(name types.NamespacedName) []*unstructured.Unstructured {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.specs[name])
}

// removeSpec forgets the oldest object of the resource if that is config.
func (o *observations) removeSpec(config *unstructured.Unstructured) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := client.ObjectKeyFromObject(config)
	specs := o.specs[name]
	if len(specs) == 0 || specs[0] != config {
		return
	}
	if o.specs[name] = specs[1:]; len(specs) == 1 {
		delete(o.specs, name)
	}
}
