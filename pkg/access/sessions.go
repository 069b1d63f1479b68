// Copyright Contributors to the Open Cluster Management project

package access

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
)

// Source is what tells the access providers: a *File.
type Source interface {
	State() FileState
}

// Sessions has one Session per ClusterProfile, and one connection for all profiles that say the same.
type Sessions struct {
	source  Source
	opts    Options
	plugins *runner

	mu          sync.Mutex
	sessions    map[types.NamespacedName]*Session
	connections map[string]*connection
	closed      bool
}

// NewSessions connects to nothing yet.
func NewSessions(source Source, opts Options) *Sessions {
	opts = opts.withDefaults()
	return &Sessions{
		source: source, opts: opts, plugins: newRunner(opts.Plugin, opts.LookupEnv),
		sessions:    map[types.NamespacedName]*Session{},
		connections: map[string]*connection{},
	}
}

// For is the session of a profile. It is another one, and the one before is over, when what the profile says about access,
// its access provider in the file, or the file of the plugin has changed. Nothing is sent and no plugin runs yet. The error
// is an *Error.
func (s *Sessions) For(profile *clusterinventoryv1alpha1.ClusterProfile) (*Session, error) {
	name := types.NamespacedName{Namespace: profile.Namespace, Name: profile.Name}
	var at *endpoint
	r, wrong := recipeOf(s.source.State(), profile)
	if wrong == nil {
		at, wrong = r.endpoint(&s.opts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, closed().of(name)
	}
	if wrong != nil {
		s.end(name, replaced())
		return nil, wrong.of(name)
	}
	session, wrong := s.session(name, r, at)
	if wrong != nil {
		return nil, wrong.of(name)
	}
	return session, nil
}

// session is the one there is, or a new one in its place.
func (s *Sessions) session(name types.NamespacedName, r *recipe, at *endpoint) (*Session, *fault) {
	key := r.key()
	if current := s.sessions[name]; current != nil && current.conn.key == key {
		return current, nil
	}
	conn := s.connections[key]
	if conn == nil {
		conn = newConnection(r, at, &s.opts, s.plugins)
	}
	session, wrong := newSession(name, conn)
	s.end(name, replaced())
	if wrong != nil {
		return nil, wrong
	}
	conn.users++
	s.connections[key], s.sessions[name] = conn, session
	return session, nil
}

// Forget ends the session of a profile that is not needed any more.
func (s *Sessions) Forget(profile types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(profile, replaced())
}

// Close ends all sessions, and lets none begin.
func (s *Sessions) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for name := range s.sessions {
		s.end(name, closed())
	}
}

// end takes a session out, and closes its connection when no other profile has it. The caller holds the lock.
func (s *Sessions) end(name types.NamespacedName, why *fault) {
	session := s.sessions[name]
	if session == nil {
		return
	}
	delete(s.sessions, name)
	session.end(why)
	conn := session.conn
	if conn.users--; conn.users == 0 {
		delete(s.connections, conn.key)
		conn.close()
	}
}
