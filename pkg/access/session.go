// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Session is a cluster as a ClusterProfile leads to it. It is for any number of goroutines.
//
// What its clients return is an *Error, perhaps wrapped, when the cluster did not answer, or the API's own error when it
// did. An error that is neither is the context's: the cluster was not asked, or not for long enough to say anything.
type Session struct {
	profile types.NamespacedName
	conn    *connection
	client  *http.Client
	config  *rest.Config
	dynamic dynamic.Interface
	done    chan struct{}

	mu      sync.Mutex
	over    *fault
	watches map[*watch]context.CancelFunc
}

func newSession(profile types.NamespacedName, conn *connection) (*Session, *fault) {
	s := &Session{profile: profile, conn: conn, done: make(chan struct{}), watches: map[*watch]context.CancelFunc{}}
	s.client = &http.Client{
		Transport: s,
		// RoundTrip would refuse to go elsewhere, too.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.config = &rest.Config{
		Host: conn.endpoint.base.String(), Transport: s, UserAgent: conn.opts.UserAgent,
		// RoundTrip has the limits, for all clients together.
		QPS: -1,
	}
	client, err := dynamic.NewForConfigAndClient(s.config, s.client)
	if err != nil {
		return nil, connectionFailed("correct the address in status.accessProviders",
			"no client can be made for %s", conn.endpoint).because(err)
	}
	s.dynamic = client
	return s, nil
}

// Profile is the ClusterProfile. It is not the cluster's identity: Probe tells that.
func (s *Session) Profile() types.NamespacedName { return s.profile }

// Provider is the access provider that is used.
func (s *Session) Provider() string { return s.conn.recipe.Provider }

// String keeps everything else out of what is printed.
func (s *Session) String() string { return "session of ClusterProfile " + s.profile.String() }

// RESTConfig is for other clients than Dynamic, made with rest's ...ForConfigAndClient and HTTPClient.
func (s *Session) RESTConfig() *rest.Config { return rest.CopyConfig(s.config) }

// HTTPClient is what all clients of the session use. It has no timeout, which would end watches: the context of a request
// does.
func (s *Session) HTTPClient() *http.Client { return s.client }

// Dynamic is a client for every kind.
func (s *Session) Dynamic() dynamic.Interface { return s.dynamic }

// Done is closed when the session is over and sends nothing any more.
func (s *Session) Done() <-chan struct{} { return s.done }

// RetryAt is when the cluster is asked again after it failed; zero when it may be asked at any time. Until then requests
// fail at once, with what went wrong last.
func (s *Session) RetryAt() time.Time { return s.conn.breaker.retryAt() }

// AnsweredSince tells that the cluster has answered something after a time, whoever asked.
func (s *Session) AnsweredSince(t time.Time) bool { return s.conn.answered.Load() > t.UnixNano() }

// Pings tells that connections of a cluster that is silent end within seconds, and what is watched through them.
func (s *Session) Pings() bool { return s.conn.pings.Load() }

// RoundTrip sends a request with the credential, in its turn.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := s.roundTrip(req)
	if err == nil {
		return answer, nil
	}
	// Those who turn a request away have not closed it; for the others it does no harm.
	if req.Body != nil {
		_ = req.Body.Close()
	}
	if f := s.ended(); f != nil {
		return nil, f.of(s.profile)
	}
	if f, ok := err.(*fault); ok { //nolint:errorlint // roundTrip returns it as it is
		return nil, f.of(s.profile)
	}
	return nil, fmt.Errorf("ClusterProfile %s: %w", s.profile, err)
}

func (s *Session) roundTrip(req *http.Request) (*http.Response, error) {
	if f := s.ended(); f != nil {
		return nil, f
	}
	if base := s.conn.endpoint.base; req.URL.Scheme != base.Scheme || req.URL.Host != base.Host {
		return nil, connectionFailed("publish the address that it redirects to in status.accessProviders",
			"%s sends requests elsewhere, which does not get the credential", s.conn.endpoint)
	}
	if !isWatch(req) {
		return s.conn.roundTrip(req, s.ended)
	}
	ctx, cancel := context.WithCancel(req.Context())
	w := &watch{end: func() {}}
	if f := s.enlist(w, cancel); f != nil {
		cancel()
		return nil, f
	}
	w.end = func() { s.delist(w); cancel(); s.conn.tidy() }
	answer, err := s.conn.roundTrip(req.WithContext(ctx), s.ended)
	if err != nil {
		w.end()
		return nil, err
	}
	w.ReadCloser, answer.Body = answer.Body, w
	return answer, nil
}

// ended is why the session sends nothing any more, nil while it does.
func (s *Session) ended() *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// end lets no request begin any more. Watches end, because they would go on for ever; other requests come to their end.
func (s *Session) end(why *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return
	}
	s.over = why
	close(s.done)
	for _, cancel := range s.watches {
		cancel()
	}
}

func (s *Session) enlist(w *watch, cancel context.CancelFunc) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	s.watches[w] = cancel
	return nil
}

func (s *Session) delist(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
}

// watch is the body of an answer that goes on.
type watch struct {
	io.ReadCloser
	end func()
}

func (w *watch) Close() error {
	defer w.end()
	return w.ReadCloser.Close()
}
