// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// resourceID identifies a resource of any component.
type resourceID struct {
	component api.Component
	name      types.NamespacedName
}

func resourceIDOf(config *unstructured.Unstructured) resourceID {
	return resourceID{componentOf(config), client.ObjectKeyFromObject(config)}
}

// RequestSource adds requests of connections to the queue of a controller. A source.Channel would block the watch of a cluster
// when the controller is busy or has stopped, and would not merge equal requests.
type RequestSource struct {
	mu sync.Mutex
	// queue is nil before the controller runs. Requests before that are dropped: the controller begins with all resources.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

var _ source.Source = (*RequestSource)(nil)

// Start implements source.Source.
func (s *RequestSource) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	return nil
}

// enqueue adds a request for the resource. It never blocks.
func (s *RequestSource) enqueue(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil {
		s.queue.Add(reconcile.Request{NamespacedName: name})
	}
}

// RequestSources are the sources of the controllers of all components.
type RequestSources map[api.Component]*RequestSource

// NewRequestSources returns a source for each component.
func NewRequestSources() RequestSources {
	out := RequestSources{}
	for _, c := range api.Components() {
		out[c] = &RequestSource{}
	}
	return out
}

func (s RequestSources) enqueue(id resourceID) {
	if requests := s[id.component]; requests != nil {
		requests.enqueue(id.name)
	}
}

// clusterUsers records which resources use which cluster. The lock is never held during a request to a cluster.
type clusterUsers struct {
	mu sync.Mutex
	// profiles are the ClusterProfiles of the clusters; the empty name is the hub.
	profiles map[resourceID]types.NamespacedName
}

// addUser records that the resource uses the cluster of the ClusterProfile.
func (u *clusterUsers) addUser(id resourceID, profile types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.profiles == nil {
		u.profiles = map[resourceID]types.NamespacedName{}
	}
	u.profiles[id] = profile
}

// removeUser returns the ClusterProfile that the resource used, and whether no other resource uses the ClusterProfile.
func (u *clusterUsers) removeUser(id resourceID) (profile types.NamespacedName, last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	profile, ok := u.profiles[id]
	if !ok {
		return types.NamespacedName{}, false
	}
	delete(u.profiles, id)
	for _, other := range u.profiles {
		if other == profile {
			return profile, false
		}
	}
	return profile, true
}

// usersOf returns the resources that use the cluster of the ClusterProfile. An empty component stands for all components.
func (u *clusterUsers) usersOf(profile types.NamespacedName, component api.Component) []resourceID {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []resourceID
	for id, used := range u.profiles {
		if used == profile && (component == "" || component == id.component) {
			out = append(out, id)
		}
	}
	return out
}
