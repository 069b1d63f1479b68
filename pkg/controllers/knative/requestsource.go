// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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
	// profiles are the ClusterProfiles of the clusters, by resource; the empty name is the hub.
	profiles map[resourceID]types.NamespacedName
	// users are the resources, by ClusterProfile.
	users map[types.NamespacedName]sets.Set[resourceID]
}

// addUser records that the resource uses the cluster of the ClusterProfile.
func (u *clusterUsers) addUser(id resourceID, profile types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if former, found := u.profiles[id]; found && former != profile {
		u.forgetUser(id, former)
	}
	if u.profiles == nil {
		u.profiles, u.users = map[resourceID]types.NamespacedName{}, map[types.NamespacedName]sets.Set[resourceID]{}
	}
	u.profiles[id] = profile
	if u.users[profile] == nil {
		u.users[profile] = sets.Set[resourceID]{}
	}
	u.users[profile].Insert(id)
}

// removeUser returns the ClusterProfile that the resource used, and whether no other resource uses the ClusterProfile.
func (u *clusterUsers) removeUser(id resourceID) (profile types.NamespacedName, last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	profile, found := u.profiles[id]
	if !found {
		return types.NamespacedName{}, false
	}
	u.forgetUser(id, profile)
	return profile, len(u.users[profile]) == 0
}

// forgetUser removes the resource from the users of the ClusterProfile. The caller holds the lock.
func (u *clusterUsers) forgetUser(id resourceID, profile types.NamespacedName) {
	delete(u.profiles, id)
	u.users[profile].Delete(id)
	if len(u.users[profile]) == 0 {
		delete(u.users, profile)
	}
}

// usersOf returns the resources that use the cluster of the ClusterProfile. An empty component stands for all components.
func (u *clusterUsers) usersOf(profile types.NamespacedName, component api.Component) []resourceID {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []resourceID
	for id := range u.users[profile] {
		if component == "" || component == id.component {
			out = append(out, id)
		}
	}
	return out
}
