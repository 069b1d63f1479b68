// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// Remote are the clusters of ClusterProfiles, reached through their access providers.
type Remote struct {
	Finder   *target.Finder
	Sessions *access.Sessions
	Hub      *Hub
	Clock    clock.PassiveClock
	// Wake is called when something of a component has changed on a cluster; an empty component is any.
	Wake func(c api.Component, cluster *direct.Cluster)
	// Again is called for a resource for which Of has returned ErrLooking, when it is known what was seen.
	Again func(c api.Component, name types.NamespacedName)
	// Seeing says how changes on the clusters are seen; Changed and the cluster in Log are filled in here.
	Seeing direct.Options

	mu          sync.Mutex
	connections map[types.NamespacedName]*connection // by ClusterProfile
	users       map[user]types.NamespacedName
}

// user is a resource that has a connection.
type user struct {
	component api.Component
	name      types.NamespacedName
}

func userOf(config *unstructured.Unstructured) user {
	return user{componentOf(config), nameOf(config)}
}

// connection is a session with what is watched through it.
type connection struct {
	session *access.Session
	cluster *direct.Cluster

	mu  sync.Mutex // one look at a time
	uid types.UID

	glance glance
}

var _ Clusters = (*Remote)(nil)

const (
	// heartbeat is how often a cluster is asked whether it is there, and heartbeatTimeout how long it may take to answer:
	// together they are how long a silent cluster may go unnoticed.
	heartbeat, heartbeatTimeout = 10 * time.Second, 4 * time.Second
	// watchedHeartbeat is how often it is asked while it is watched through connections that end when it is silent. The rest,
	// such as a credential that was revoked, may go unnoticed for as long.
	watchedHeartbeat = 2 * time.Minute
	// unreachableRetry is after how long a cluster that could not be reached is tried again, unless its session knows better.
	unreachableRetry = 10 * time.Second
)

// Serves implements Clusters. What the work agent has installed is not taken from it, and the other way around: two ways
// to one cluster would be two writers.
func (r *Remote) Serves(config *unstructured.Unstructured) bool {
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
	return err == nil && result.Target != nil && result.Target.Mode == resolve.Direct
}

// Name implements Clusters.
func (r *Remote) Name(config *unstructured.Unstructured) string {
	ref, _ := target.ReferenceOf(config)
	return fmt.Sprintf("the cluster of ClusterProfile %q", ref)
}

// Of implements Clusters.
func (r *Remote) Of(ctx context.Context, config *unstructured.Unstructured) (*Target, error) {
	result, err := r.Finder.Resolve(config)
	if err != nil {
		return nil, err
	}
	if result.Resolved() && result.Target.Mode != resolve.Direct {
		result.Reason, result.Message = api.ReasonTargetConflict, fmt.Sprintf(
			"%s asks for the work agent by now, and this resource was installed without it; delete the resource and make it anew", r.Name(config))
	}
	if !result.Resolved() {
		r.Forget(componentOf(config), nameOf(config)) // nobody may use the connection for it any more
		return nil, &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message}}
	}
	profile, err := r.Finder.Profiles.Get(result.Target.Profile)
	if err != nil {
		return nil, fmt.Errorf("cannot get ClusterProfile %q: %w", result.Target.Profile, err)
	}
	if profile == nil {
		return nil, fmt.Errorf("cannot get ClusterProfile %q: it was deleted a moment ago", result.Target.Profile)
	}
	known := values.OfClusterProfile(profile)
	c, err := r.connect(config, profile)
	if err != nil {
		r.Forget(componentOf(config), nameOf(config))
		return nil, r.unreachable(err, nil, known)
	}
	alone := context.WithoutCancel(ctx) // a look goes on without the worker
	err = c.glance.seen(c.fresh(r.Clock.Now()), userOf(config), func() error { return r.look(alone, c) }, func(u user) { r.Again(u.component, u.name) })
	if err != nil {
		return nil, r.unreachable(err, c.session, known)
	}
	hub, err := r.Hub.UID(ctx)
	if err != nil {
		return nil, err
	}
	return &Target{
		Cluster: c.cluster, Hub: hub, Values: known, LookAgain: c.glance.due(r.Clock.Now(), c.heartbeat()),
		Look: func(ctx context.Context) error { return r.look(ctx, c) },
		Explain: func(err error) (*UnreachableError, bool) {
			var unreachable *UnreachableError
			ok := errors.As(r.unreachable(err, c.session, known), &unreachable)
			return unreachable, ok
		},
	}, nil
}

// unreachable makes an *UnreachableError of what a session says.
func (r *Remote) unreachable(err error, s *access.Session, known *values.Cluster) error {
	var failure *access.Error
	if !errors.As(err, &failure) {
		return err
	}
	retry := unreachableRetry
	if s != nil {
		if wait := s.RetryAt().Sub(r.Clock.Now()); wait > 0 {
			retry = wait
		}
	}
	return &UnreachableError{
		Finding: status.Finding{Status: metav1.ConditionFalse, Reason: failure.Reason, Message: failure.Message}, Retry: retry, Values: known,
	}
}

// connect is the connection of a ClusterProfile, made anew when anything has changed that it is made from.
func (r *Remote) connect(config *unstructured.Unstructured, profile *clusterinventoryv1alpha1.ClusterProfile) (*connection, error) {
	name := types.NamespacedName{Namespace: profile.Namespace, Name: profile.Name}
	session, err := r.Sessions.For(profile)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users, r.connections = map[user]types.NamespacedName{}, map[types.NamespacedName]*connection{}
	}
	r.users[userOf(config)] = name
	have := r.connections[name]
	if have != nil && have.session == session {
		return have, nil
	}
	c, seeing := &connection{session: session}, r.Seeing
	seeing.Changed = func(component api.Component) { r.Wake(component, c.cluster) }
	seeing.Log = seeing.Log.WithValues("clusterProfile", name.String())
	c.cluster, err = direct.Connect(session.RESTConfig(), session.HTTPClient(), seeing)
	if err != nil {
		return nil, err
	}
	if have != nil {
		have.cluster.Close()
	}
	r.connections[name] = c
	return c, nil
}

func (c *connection) heartbeat() time.Duration {
	if c.session.Pings() && c.cluster.Watched() {
		return watchedHeartbeat
	}
	return heartbeat
}

// fresh is since when an answer of the cluster counts.
func (c *connection) fresh(now time.Time) time.Time {
	since := now.Add(-c.heartbeat())
	if lost := c.cluster.Lost(); lost.After(since) {
		return lost
	}
	return since
}

// look asks the cluster whether it is there, unless it has answered a moment ago.
func (r *Remote) look(ctx context.Context, c *connection) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uid == "" {
		identity, err := c.session.Probe(ctx)
		if err != nil {
			return err
		}
		c.uid = identity.UID
		c.glance.answered(r.Clock.Now())
		return nil
	}
	if c.glance.answeredAfter(c.fresh(r.Clock.Now())) {
		return nil
	}
	start := r.Clock.Now()
	beat, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	uid, err := c.cluster.UID(beat)
	switch {
	case err != nil && beat.Err() != nil && c.session.AnsweredSince(start): // it is busy, perhaps with us, and not silent
		return nil
	case err != nil && beat.Err() != nil && ctx.Err() == nil:
		return &access.Error{Reason: api.ReasonRemoteClusterStale, Message: fmt.Sprintf(
			"the cluster of ClusterProfile %q does not answer any more; what is installed there stays: see whether its API server runs and can be reached from the hub",
			c.session.Profile()), Err: err}
	case apierrors.IsForbidden(err): // asked once more, in a way that says what the credential lacks
		_, err = c.session.Probe(ctx)
		return err
	case err != nil:
		return err
	case uid != c.uid:
		return &access.Error{Reason: api.ReasonRemoteClusterStale, Message: fmt.Sprintf(
			"another cluster answers at the address of ClusterProfile %q; name the right one there, or delete this resource with annotation %s",
			c.session.Profile(), api.ForceOrphanAnnotation)}
	}
	c.glance.answered(r.Clock.Now())
	return nil
}

// Forget implements Clusters. The connection ends with its last user.
func (r *Remote) Forget(component api.Component, name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	profile, ok := r.users[user{component, name}]
	if !ok {
		return
	}
	delete(r.users, user{component, name})
	for _, other := range r.users {
		if other == profile {
			return
		}
	}
	if c := r.connections[profile]; c != nil {
		c.cluster.Close()
		delete(r.connections, profile)
	}
	r.Sessions.Forget(profile)
}

// Close ends all connections.
func (r *Remote) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.connections {
		c.cluster.Close()
	}
	r.Sessions.Close()
}
