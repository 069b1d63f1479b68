// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// Remote finds the clusters of ClusterProfiles, through the access providers of the profiles.
type Remote struct {
	Finder   *target.Finder
	Sessions *access.Sessions
	Hub      *HubIdentity
	Clock    clock.PassiveClock
	// Requests get the resources of a cluster on which an object of the component changed, the resources that wait for a probe, and all resources
	// of a cluster that has stopped answering.
	Requests RequestSources
	// WatchOptions are the options of connections. Remote sets Changed, and the ClusterProfile in Log.
	WatchOptions clustercache.Options

	users       clusterUsers
	mu          sync.Mutex
	connections map[types.NamespacedName]*connection // by ClusterProfile
}

var _ Clusters = (*Remote)(nil)

// InstallsDirectly implements Clusters. A resource stays with the delivery that installed the resource, the work agent or the manager: two
// deliveries to one cluster would be two writers.
func (r *Remote) InstallsDirectly(config *unstructured.Unstructured) bool {
	if _, refers := target.ReferenceOf(config); !refers || slices.Contains(config.GetFinalizers(), api.InstallFinalizer) {
		return false
	}
	if _, conflict := r.Finder.Conflict(); conflict {
		return false
	}
	if slices.Contains(config.GetFinalizers(), api.DirectFinalizer) {
		return true
	}
	result, err := r.Finder.Resolve(config)
	return err == nil && result.Target != nil && result.Target.Mode == api.ModeDirect
}

// DisplayName implements Clusters.
func (r *Remote) DisplayName(config *unstructured.Unstructured) string {
	ref, refers := target.ReferenceOf(config)
	if !refers {
		return hubDisplayName
	}
	return fmt.Sprintf("the cluster of ClusterProfile %q", ref)
}

// InstallNamespace implements Clusters.
func (r *Remote) InstallNamespace(config *unstructured.Unstructured) string {
	return requestedNamespace(componentOf(config), config)
}

// FindCluster implements Clusters. A resource without a reference was installed on the hub before: such a resource keeps its finalizer, and the
// removal waits for a manager that may write to the hub.
func (r *Remote) FindCluster(ctx context.Context, config *unstructured.Unstructured) (*ReachableCluster, error) {
	if _, refers := target.ReferenceOf(config); !refers {
		c := componentOf(config)
		return nil, &UnreachableError{Finding: status.Finding{
			Status: metav1.ConditionFalse, Reason: api.ReasonLocalInstallsDisabled, Message: fmt.Sprintf(
				"%s was installed on the hub for this resource; the hub installs and removes only resources of namespace %q, and only with localInstalls of chart knative-addon",
				c, c.InstallNamespace()),
		}}
	}
	profile, err := r.findProfile(config)
	if err != nil {
		return nil, err
	}
	clusterValues := values.OfClusterProfile(profile)
	c, err := r.ensureConnection(config, profile)
	if err != nil {
		r.Forget(componentOf(config), client.ObjectKeyFromObject(config))
		if unreachable, ok := newUnreachableError(err, unreachableRetry, clusterValues); ok {
			return nil, unreachable
		}
		return nil, err
	}
	monitor := connectionMonitor{connection: c, clusterValues: clusterValues}
	probeCtx := context.WithoutCancel(ctx) // a probe continues after the end of the pass
	pending, err := c.liveness.checkAnsweredSince(c.answerDeadline(), resourceIDOf(config), func() error { return c.probe(probeCtx) })
	if pending {
		return nil, nil
	}
	if err != nil {
		if unreachable, ok := monitor.UnreachableError(err); ok {
			return nil, unreachable
		}
		return nil, err
	}
	c.scheduleProbe() //nolint:contextcheck // the probe comes after the end of the pass
	hub, err := r.Hub.UID(ctx)
	if err != nil {
		return nil, err
	}
	return &ReachableCluster{
		Cluster: c.cluster, UID: c.uid, HubUID: hub, Values: clusterValues,
		NextProbe: c.liveness.nextProbeAfter(r.Clock.Now(), c.probeInterval()), Monitor: monitor,
	}, nil
}

// findProfile returns the ClusterProfile that the resource refers to. The error is an *UnreachableError when the reference leads
// to no cluster that the manager may connect to, and then the resource no longer uses its connection.
func (r *Remote) findProfile(config *unstructured.Unstructured) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	result, err := r.Finder.Resolve(config)
	if err != nil {
		return nil, err
	}
	if result.Resolved() && result.Target.Mode != api.ModeDirect {
		result.Reason, result.Message = api.ReasonTargetConflict, fmt.Sprintf(
			"%s now requests the work agent, and this resource was installed without a work agent; recreate the resource", r.DisplayName(config))
	}
	if !result.Resolved() {
		r.Forget(componentOf(config), client.ObjectKeyFromObject(config))
		unreachable := &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message}}
		if result.Target != nil { // a cluster that has become unhealthy goes on using its values
			if profile, err := r.Finder.Profiles.Get(result.Target.Profile); err == nil && profile != nil {
				unreachable.Values = values.OfClusterProfile(profile)
			}
		}
		return nil, unreachable
	}
	profile, err := r.Finder.Profiles.Get(result.Target.Profile)
	if err != nil {
		return nil, fmt.Errorf("cannot get ClusterProfile %q: %w", result.Target.Profile, err)
	}
	if profile == nil {
		return nil, fmt.Errorf("cannot get ClusterProfile %q: the object was deleted a moment ago", result.Target.Profile)
	}
	return profile, nil
}

// ensureConnection returns the connection of a ClusterProfile. A session that package access replaced gets a new connection, and so
// does a session through which another cluster answers.
func (r *Remote) ensureConnection(config *unstructured.Unstructured, profile *clusterinventoryv1alpha1.ClusterProfile) (*connection, error) {
	name := types.NamespacedName{Namespace: profile.Namespace, Name: profile.Name}
	session, err := r.Sessions.For(profile)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users.addUser(resourceIDOf(config), name)
	old := r.connections[name]
	if old != nil && old.session == session && !old.replaced.Load() {
		return old, nil
	}
	options := r.WatchOptions
	options.Changed = func(component api.Component) { r.enqueueUsers(name, component) }
	options.Log = options.Log.WithValues("clusterProfile", name.String())
	cluster, err := clustercache.Connect(session.RESTConfig(), session.HTTPClient(), options)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.close()
		defer r.enqueueUsers(name, "") // the caches of the other resources of the cluster end with the connection
	}
	if r.connections == nil {
		r.connections = map[types.NamespacedName]*connection{}
	}
	c := &connection{session: session, cluster: cluster, clock: r.Clock, liveness: liveness{
		users: func() []resourceID { return r.users.usersOf(name, "") }, enqueue: r.Requests.enqueue,
	}}
	r.connections[name] = c
	return c, nil
}

// enqueueUsers enqueues the resources that install, or request, the component on the cluster of a ClusterProfile.
func (r *Remote) enqueueUsers(profile types.NamespacedName, component api.Component) {
	for _, id := range r.users.usersOf(profile, component) {
		r.Requests.enqueue(id)
	}
}

// Forget implements Clusters. The connection ends with its last user.
func (r *Remote) Forget(component api.Component, name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	profile, last := r.users.removeUser(resourceID{component, name})
	c := r.connections[profile]
	if !last {
		if c != nil {
			c.liveness.forgetResource(resourceID{component, name})
		}
		return
	}
	if c != nil {
		c.close()
		delete(r.connections, profile)
	}
	r.Sessions.Forget(profile)
}

// Close ends all connections.
func (r *Remote) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.connections {
		c.close()
	}
	r.Sessions.Close()
}
