// Copyright Contributors to the Open Cluster Management project

package access

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
)

// Source holds the access providers; File implements Source.
type Source interface {
	State() FileState
}

// Sessions holds one Session for each ClusterProfile, and one connection for all profiles with equal connection specs.
type Sessions struct {
	source  Source
	opts    Options
	plugins *pluginRunner
	// memoryBudget is shared by the answers of all clusters.
	memoryBudget *boundedhttp.Budget

	mu          sync.Mutex
	sessions    map[types.NamespacedName]*Session
	connections map[string]*connection
	closed      bool
}

// NewSessions returns Sessions without any connection.
func NewSessions(source Source, opts Options) *Sessions {
	opts = opts.withDefaults()
	return &Sessions{
		source: source, opts: opts, plugins: newPluginRunner(&opts),
		sessions:     map[types.NamespacedName]*Session{},
		connections:  map[string]*connection{},
		memoryBudget: boundedhttp.NewBudget(boundedhttp.DefaultMemory),
	}
}

// For returns the session of a profile. After a change of the profile's access settings, of the access provider in the
// file, or of the plugin's file, For ends the previous session and returns a new session. No request is sent and no plugin
// runs yet. The error is an *Error.
func (s *Sessions) For(profile *clusterinventoryv1alpha1.ClusterProfile) (*Session, error) {
	name := types.NamespacedName{Namespace: profile.Namespace, Name: profile.Name}
	var at *endpoint
	spec, failure := newConnectionSpec(s.source.State(), &s.opts, profile)
	if failure == nil {
		at, failure = spec.buildEndpoint(&s.opts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, closedFault().forProfile(name)
	}
	if failure != nil {
		s.endSession(name, replacedFault())
		return nil, failure.forProfile(name)
	}
	session, failure := s.getOrCreateSession(name, spec, at)
	if failure != nil {
		return nil, failure.forProfile(name)
	}
	return session, nil
}

// getOrCreateSession returns the current session for equal specs, and otherwise replaces the session.
func (s *Sessions) getOrCreateSession(name types.NamespacedName, spec *connectionSpec, at *endpoint) (*Session, *fault) {
	key := spec.connectionKey()
	if current := s.sessions[name]; current != nil && current.conn.key == key {
		return current, nil
	}
	s.endSession(name, replacedFault())
	conn := s.connections[key]
	if conn == nil {
		conn = newConnection(spec, at, &s.opts, s.plugins)
		conn.memoryShare = s.memoryBudget.Share()
		if fast := (pingTimes{fastPingAfter, fastPingTimeout}); s.countPingTimes(fast) < fastPingConnections {
			conn.pings = fast
		}
	}
	session, failure := newSession(name, conn)
	if failure != nil {
		return nil, failure
	}
	conn.sessionCount++
	s.connections[key], s.sessions[name] = conn, session
	return session, nil
}

// countPingTimes counts the connections with the times of pings. The caller holds the lock.
func (s *Sessions) countPingTimes(pings pingTimes) int {
	count := 0
	for _, conn := range s.connections {
		if conn.pings == pings {
			count++
		}
	}
	return count
}

// Forget ends the session of a profile that is not needed any more.
func (s *Sessions) Forget(profile types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSession(profile, replacedFault())
}

// CountConnections counts the connections by the state of their circuit breakers.
func (s *Sessions) CountConnections() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{breakerClosed: 0, breakerOpen: 0, breakerHalfOpen: 0}
	for _, conn := range s.connections {
		out[conn.breaker.currentState()]++
	}
	return out
}

// Close ends all sessions, and lets none begin.
func (s *Sessions) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for name := range s.sessions {
		s.endSession(name, closedFault())
	}
}

// endSession removes a session, and closes the connection when no other profile uses the connection. The caller holds the
// lock.
func (s *Sessions) endSession(name types.NamespacedName, why *fault) {
	session := s.sessions[name]
	if session == nil {
		return
	}
	delete(s.sessions, name)
	session.endWith(why)
	conn := session.conn
	if conn.sessionCount--; conn.sessionCount == 0 {
		delete(s.connections, conn.key)
		conn.close()
	}
}
