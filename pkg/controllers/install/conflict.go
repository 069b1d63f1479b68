// Copyright Contributors to the Open Cluster Management project

package install

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// left tells that the resource is the Knative Operator's and is left alone, status included: two writers would overwrite
// each other for ever. An Event says so, once; the condition is on the ManagedClusterAddOn.
func (r *Reconciler) left(s *scope) bool {
	result, conflict := r.Finder.Conflict()
	if r.conflicts.changed(s.config.GetUID(), conflict) && conflict {
		r.Events.Eventf(s.config, nil, corev1.EventTypeWarning, api.ReasonConflict, "Reconcile", "%s", result.Message)
	}
	return conflict
}

// told remembers who was told of something. Forgetting it costs one Event.
type told struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

// changed records whether it is true of somebody, and tells whether that is news.
func (t *told) changed(uid types.UID, now bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uids == nil {
		t.uids = map[types.UID]bool{}
	}
	before := t.uids[uid]
	if delete(t.uids, uid); now {
		t.uids[uid] = true
	}
	return before != now
}
