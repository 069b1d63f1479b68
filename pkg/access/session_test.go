// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// reasonOf is the reason of an *Error, or the error's text when it is none.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	if err == nil {
		return ""
	}
	return "not an *Error: " + err.Error()
}

// ask sends a request of the session's client. The answer is read and closed.
func ask(ctx context.Context, s *Session, method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.RESTConfig().Host+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	answer, err := s.HTTPClient().Do(req)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() //nolint:errcheck // there is nothing more to learn
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

func TestClientsOfASession(t *testing.T) {
	s := newSpoke(t)
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	got, err := session.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
		Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil || got.GetUID() != "0b1a-uid" {
		t.Errorf("dynamic: got %v, %v", got, err)
	}
	// Also a client that makes its own HTTP client goes through the session.
	clients, err := kubernetes.NewForConfig(session.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if version, err := clients.Discovery().ServerVersion(); err != nil || version.GitVersion != "v1.35.1" {
		t.Errorf("discovery: got %v, %v", version, err)
	}
	session.RESTConfig().Host = "https://elsewhere"
	if session.RESTConfig().Host != s.URL {
		t.Error("the configuration is shared")
	}
	if session.Provider() != "exec" || session.Profile().String() != "fleet/p" || !strings.HasSuffix(session.String(), "fleet/p") {
		t.Errorf("it is %s of %s: %s", session.Provider(), session.Profile(), session)
	}
}

// TestPings holds that a session knows whether its connections find out by themselves that the cluster is silent.
func TestPings(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		t.Run(name, func(t *testing.T) {
			s := newSpoke(t, func(s *spoke) { s.EnableHTTP2 = http2 })
			session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
			if session.Pings() {
				t.Error("it knows before the cluster has answered")
			}
			if _, _, err := ask(t.Context(), session, http.MethodGet, "/version", ""); err != nil {
				t.Fatal(err)
			}
			if session.Pings() != http2 {
				t.Errorf("it says %t", session.Pings())
			}
			if pings := session.conn.transport.HTTP2; pings.SendPingTimeout != fastPingAfter || pings.PingTimeout != fastPingTimeout {
				t.Errorf("pings are configured as %+v", pings)
			}
		})
	}
}

func TestRequestsOfASession(t *testing.T) {
	var got *http.Request
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(_ http.ResponseWriter, r *http.Request) bool { got = r; return false }
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer callers-own")
	answer, err := session.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got.Header.Get("Authorization") != "Bearer "+goodToken || got.Header.Get("User-Agent") != "knative-addon" || got.ProtoMajor != 2 {
		t.Errorf("sent %v in %s", got.Header, got.Proto)
	}
	if req.Header.Get("Authorization") != "Bearer callers-own" || req.Header.Get("User-Agent") != "" {
		t.Errorf("the caller's request is changed: %v", req.Header)
	}
}

// TestARefusedTokenIsRenewedOnce holds that rotation is not noticed, and revocation is, without asking for ever.
func TestARefusedTokenIsRenewedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "one")
	script, runs := counting(t, `echo '{"apiVersion":"`+execV1+`","kind":"ExecCredential","status":{"token":"'$(cat `+file+`)'"}}'`)
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !s.knows(r) {
				return false
			}
			_, _ = io.Copy(w, r.Body)
			return true
		}
	})
	s.take("one")
	session := sessionFor(t, providers(plugin(t, script)), profile("p", s.cluster()), options())
	if _, _, err := ask(t.Context(), session, http.MethodGet, "/version", ""); err != nil || runs() != 1 {
		t.Fatalf("%v after %d runs", err, runs())
	}
	s.take("two")
	write(t, file, "two")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			status, body, err := ask(t.Context(), session, http.MethodPost, "/echo", "my body")
			if status != http.StatusOK || body != "my body" || err != nil {
				t.Errorf("got %d %q, %v", status, body, err)
			}
		})
	}
	all.Wait()
	if runs() != 2 {
		t.Errorf("the plugin ran %d times for one rotation", runs())
	}

	s.take("three")
	before := s.requests.Load()
	if status, _, err := ask(t.Context(), session, http.MethodGet, "/version", ""); status != http.StatusUnauthorized || err != nil {
		t.Errorf("got %d, %v; want the cluster's 401", status, err)
	}
	for range 5 {
		_, _, err := ask(t.Context(), session, http.MethodGet, "/version", "")
		if reasonOf(err) != api.ReasonRemoteClientCreationFailed || !strings.Contains(err.Error(), "(401)") {
			t.Errorf("got %v", err)
		}
	}
	if asked := s.requests.Load() - before; asked != 2 || runs() != 3 {
		t.Errorf("a revoked token cost %d requests and %d runs, want 2 and 1", asked, runs()-2)
	}
}

// TestACredentialGoesNowhereElse holds that no redirect brings a token to another server.
func TestACredentialGoesNowhereElse(t *testing.T) {
	var stolen atomic.Int64
	thief := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer thief.Close()
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, thief.URL+"/version", http.StatusTemporaryRedirect)
			return true
		}
	})
	// Nothing but its address tells it from the cluster.
	thief.TLS = &tls.Config{Certificates: s.TLS.Certificates}
	thief.StartTLS()
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	if status, _, err := ask(t.Context(), session, http.MethodGet, "/version", ""); status != http.StatusTemporaryRedirect || err != nil {
		t.Errorf("got %d, %v; want the redirect itself", status, err)
	}
	clients, err := kubernetes.NewForConfig(session.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	// This client does follow it.
	if _, err := clients.Discovery().ServerVersion(); reasonOf(err) != api.ReasonRemoteClientCreationFailed || !strings.Contains(err.Error(), "to another server") {
		t.Errorf("got %v", err)
	}
	if stolen.Load() != 0 {
		t.Error("another server was asked")
	}
}

func TestACallersOwnCredentialIsNotSent(t *testing.T) {
	sent := "nothing"
	s := newSpoke(t, func(s *spoke) {
		s.TLS.ClientAuth = tls.RequestClientCert
		s.answer = func(_ http.ResponseWriter, r *http.Request) bool { sent = r.Header.Get("Authorization"); return false }
	})
	c := issue(t, nil, nil)
	script := "cat <<'END'\n" + `{"apiVersion":"` + execV1 + `","kind":"ExecCredential","status":{"clientCertificateData":` +
		asJSON(t, string(c.pem)) + `,"clientKeyData":` + asJSON(t, string(c.keyPEM)) + "}}\nEND\n"
	session := sessionFor(t, providers(plugin(t, script)), profile("p", s.cluster()), options())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer of-the-caller")
	answer, err := session.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK || sent != "" {
		t.Errorf("got %d, sent %q", answer.StatusCode, sent)
	}
}

func TestClientCertificatesAreReplaced(t *testing.T) {
	var names []string
	s := newSpoke(t, func(s *spoke) {
		s.TLS.ClientAuth = tls.RequestClientCert
		s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
			names = append(names, r.TLS.PeerCertificates[0].SerialNumber.String())
			return false
		}
	})
	now := clocktesting.NewFakePassiveClock(time.Now())
	file := filepath.Join(t.TempDir(), "answer")
	var want []string
	put := func(expires time.Time) {
		c := issue(t, nil, nil)
		want = append(want, c.parsed.SerialNumber.String())
		write(t, file, `{"apiVersion":"`+execV1+`","kind":"ExecCredential","status":{"expirationTimestamp":"`+expires.UTC().Format(time.RFC3339)+
			`","clientCertificateData":`+asJSON(t, string(c.pem))+`,"clientKeyData":`+asJSON(t, string(c.keyPEM))+`}}`)
	}
	put(now.Now().Add(time.Hour))
	session := sessionFor(t, providers(plugin(t, "cat "+file)), profile("p", s.cluster()), options(func(o *Options) { o.Clock = now }))
	for range 2 {
		if _, _, err := ask(t.Context(), session, http.MethodGet, "/version", ""); err != nil {
			t.Fatal(err)
		}
		now.SetTime(now.Now().Add(2 * time.Hour))
		put(now.Now().Add(time.Hour))
	}
	if got := strings.Join(names, " "); got != strings.Join(want[:2], " ") {
		t.Errorf("sent %s, want %s", got, want[:2])
	}
}

func TestACredentialThatHasExpiredIsRefused(t *testing.T) {
	s := newSpoke(t)
	script := `echo '{"apiVersion":"` + execV1 + `","kind":"ExecCredential","status":{"token":"` + goodToken + `","expirationTimestamp":"2020-01-01T00:00:00Z"}}'`
	_, err := sessionFor(t, providers(plugin(t, script)), profile("p", s.cluster()), options()).Probe(t.Context())
	if reasonOf(err) != api.ReasonAccessProviderFailed || !strings.Contains(err.Error(), "has expired already; compare the clocks") {
		t.Errorf("got %v", err)
	}
}

// TestADeadClusterFailsFast holds that it is asked only at its times, and what it fails with meanwhile.
func TestADeadClusterFailsFast(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := newSpoke(t)
	address := s.Listener.Addr().String()
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(func(o *Options) { o.Clock = now }))
	if _, err := session.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	probed := now.Now()
	if now.SetTime(probed.Add(time.Second)); !session.AnsweredSince(probed.Add(-1)) || session.AnsweredSince(probed) {
		t.Error("it has answered at another time")
	}
	// A connection that is open already would fail in its own way.
	session.conn.transport.CloseIdleConnections()
	s.Close()
	var first string
	for i := range 3 {
		_, err := session.Probe(t.Context())
		if reasonOf(err) != api.ReasonRemoteClusterStale || !strings.Contains(err.Error(), "refuses connections") {
			t.Fatalf("got %v", err)
		}
		first = err.Error()
		if i < 2 && !session.RetryAt().IsZero() {
			t.Fatal("left alone too early")
		}
	}
	if got := session.RetryAt(); !got.Equal(now.Now().Add(5 * time.Second)) {
		t.Fatalf("asked again at %v", got)
	}
	// Somebody listens there now, but is not asked.
	l, err := net.Listen("tcp", address) //nolint:noctx // closed with the server
	if err != nil {
		t.Fatal(err)
	}
	again := &spoke{tokens: map[string]bool{goodToken: true}}
	again.Server = httptest.NewUnstartedServer(again)
	_ = again.Listener.Close()
	again.Listener, again.TLS = l, s.TLS
	again.StartTLS()
	defer again.Close()
	for range 10 {
		if _, err := session.Probe(t.Context()); err == nil || err.Error() != first {
			t.Errorf("got %v, want %s", err, first)
		}
	}
	if again.requests.Load() != 0 {
		t.Error("asked before its time")
	}
	if session.AnsweredSince(probed) {
		t.Error("it has answered though nobody was there")
	}
	now.SetTime(session.RetryAt())
	if _, err := session.Probe(t.Context()); err != nil || !session.RetryAt().IsZero() || !session.AnsweredSince(probed) {
		t.Errorf("got %v, to be asked again at %v", err, session.RetryAt())
	}
}

// TestARequestThatCannotBeSentAgain holds that its credential is dropped all the same.
func TestARequestThatCannotBeSentAgain(t *testing.T) {
	script, runs := counting(t, tokenScript(goodToken))
	s := newSpoke(t)
	session := sessionFor(t, providers(plugin(t, script)), profile("p", s.cluster()), options())
	s.take("other")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/version", io.MultiReader(strings.NewReader("once")))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := session.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized || runs() != 1 || session.conn.credentials.current != nil {
		t.Errorf("got %d after %d runs", answer.StatusCode, runs())
	}
}

func TestWatchesThatDoNotBeginLeaveNothing(t *testing.T) {
	session := sessionFor(t, providers(plugin(t, "exit 1")), profile("p", newSpoke(t).cluster()), options())
	for range 3 {
		_, _, err := ask(t.Context(), session, http.MethodGet, "/x?watch=true", "")
		if reasonOf(err) != api.ReasonAccessProviderFailed || len(session.watches) != 0 {
			t.Errorf("got %v, %d watches", err, len(session.watches))
		}
	}
}
