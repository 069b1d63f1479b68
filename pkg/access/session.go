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

// Session connects to the cluster of a ClusterProfile, for any number of goroutines.
//
// The clients of a Session return an *Error, perhaps wrapped, when the cluster did not answer, and the error of the API
// when the cluster did. Any other error is the error of the context: the request was not sent, or not waited for long
// enough to say anything.
type Session struct {
	profile types.NamespacedName
	conn    *connection
	client  *http.Client
	config  *rest.Config
	dynamic dynamic.Interface
	done    chan struct{}

	mu       sync.Mutex
	endFault *fault
	watches  map[*sessionWatch]context.CancelFunc
}

func newSession(profile types.NamespacedName, conn *connection) (*Session, *fault) {
	s := &Session{profile: profile, conn: conn, done: make(chan struct{}), watches: map[*sessionWatch]context.CancelFunc{}}
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
			"no client can be made for %s", conn.endpoint).withCause(err)
	}
	s.dynamic = client
	return s, nil
}

// Profile returns the ClusterProfile, which does not identify the cluster: Probe does.
func (s *Session) Profile() types.NamespacedName { return s.profile }

// Provider returns the name of the access provider.
func (s *Session) Provider() string { return s.conn.spec.Provider }

// String keeps all other fields out of logs and messages.
func (s *Session) String() string { return "session of ClusterProfile " + s.profile.String() }

// RESTConfig returns the configuration of further clients, for rest's ...ForConfigAndClient functions together with
// HTTPClient.
func (s *Session) RESTConfig() *rest.Config { return rest.CopyConfig(s.config) }

// HTTPClient returns the HTTP client of all clients of the session. The client has no timeout, which would end watches: the
// context of a request ends the request.
func (s *Session) HTTPClient() *http.Client { return s.client }

// Dynamic returns a client for every kind.
func (s *Session) Dynamic() dynamic.Interface { return s.dynamic }

// Done is closed when the session has ended and sends nothing more.
func (s *Session) Done() <-chan struct{} { return s.done }

// RetryAt returns the time until which requests fail at once, with the last failure; zero when requests are sent.
func (s *Session) RetryAt() time.Time { return s.conn.breaker.retryAt() }

// AnsweredSince reports whether the cluster has answered any request after a time. A status of 429 or 5xx is no answer.
func (s *Session) AnsweredSince(t time.Time) bool { return s.conn.lastAnswer.Load() > t.UnixNano() }

// EnsureCredential runs the plugin unless the session has a valid credential, for a request whose deadline is for the cluster alone. The error is as
// the error of a client.
func (s *Session) EnsureCredential(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.conn.opts.Cluster.ProbeTimeout)
	defer cancel()
	return s.explainError(s.conn.ensureCredential(ctx))
}

// Pings reports whether pings end the connections and watches of a silent cluster within seconds.
func (s *Session) Pings() bool { return s.conn.usesHTTP2.Load() }

// RoundTrip sends a request with the credential when the limits admit the request.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := s.roundTrip(req)
	if err == nil {
		answer.Body = &namedBody{answer.Body, s.profile}
		return answer, nil
	}
	// A refused request was not closed yet; closing a body twice does no harm.
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, s.explainError(err)
}

// explainError returns the error of the session for an error of the connection, nil for nil.
func (s *Session) explainError(err error) error {
	if err == nil {
		return nil
	}
	if f := s.endReason(); f != nil {
		return f.forProfile(s.profile)
	}
	if f, ok := err.(*fault); ok { //nolint:errorlint // roundTrip and ensureCredential return an unwrapped fault
		return f.forProfile(s.profile)
	}
	return fmt.Errorf("ClusterProfile %s: %w", s.profile, err)
}

func (s *Session) roundTrip(req *http.Request) (*http.Response, error) {
	if f := s.endReason(); f != nil {
		return nil, f
	}
	if base := s.conn.endpoint.base; req.URL.Scheme != base.Scheme || req.URL.Host != base.Host {
		return nil, connectionFailed("publish the address that it redirects to in status.accessProviders",
			"%s redirects requests to another server, which does not get the credential", s.conn.endpoint)
	}
	if !isWatch(req) {
		return s.conn.roundTrip(req, s.endReason)
	}
	ctx, cancel := context.WithCancel(req.Context())
	w := &sessionWatch{onClose: func() {}}
	if f := s.addWatch(w, cancel); f != nil {
		cancel()
		return nil, f
	}
	end := func() { s.removeWatch(w); cancel(); s.conn.closeIdleConnections() }
	// A client that cannot read an answer may never close the answer.
	stop := context.AfterFunc(req.Context(), end)
	w.onClose = func() { stop(); end() }
	answer, err := s.conn.roundTrip(req.WithContext(ctx), s.endReason)
	if err != nil {
		w.onClose()
		return nil, err
	}
	w.ReadCloser, answer.Body = answer.Body, w
	return answer, nil
}

// endReason returns the fault that ended the session, and nil before the end.
func (s *Session) endReason() *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endFault
}

// endWith ends the session: no further request begins, and watches end, because a watch has no end of its own. Other requests run to
// the end.
func (s *Session) endWith(why *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endFault != nil {
		return
	}
	s.endFault = why
	close(s.done)
	for _, cancel := range s.watches {
		cancel()
	}
}

func (s *Session) addWatch(w *sessionWatch, cancel context.CancelFunc) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endFault != nil {
		return s.endFault
	}
	s.watches[w] = cancel
	return nil
}

func (s *Session) removeWatch(w *sessionWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
}

// sessionWatch is the body of a watch, which ends with the session.
type sessionWatch struct {
	io.ReadCloser
	onClose func()
}

func (w *sessionWatch) Close() error {
	defer w.onClose()
	return w.ReadCloser.Close()
}
