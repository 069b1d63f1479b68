// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestProbe(t *testing.T) {
	want := Identity{Version: "v1.35.1", UID: "0b1a-uid"}
	for name, change := range map[string]func(*spoke, *clientcmdv1.Cluster){
		"a cluster":                    func(*spoke, *clientcmdv1.Cluster) {},
		"a cluster below a path":       func(_ *spoke, c *clientcmdv1.Cluster) { c.Server += "/prefix" },
		"a cluster below a path and /": func(_ *spoke, c *clientcmdv1.Cluster) { c.Server += "/prefix/" },
		"a cluster of another name": func(s *spoke, c *clientcmdv1.Cluster) {
			s.TLS.Certificates = []tls.Certificate{issue(t, s.ca, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"api.spoke"} }).pair}
			c.TLSServerName = "api.spoke"
		},
		"a cluster behind a proxy": func(_ *spoke, c *clientcmdv1.Cluster) { c.ProxyURL = connectProxy(t, http.StatusOK) },
		"a cluster with compression": func(s *spoke, _ *clientcmdv1.Cluster) {
			s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Accept-Encoding") != "gzip" {
					t.Errorf("asked for encoding %q", r.Header.Get("Accept-Encoding"))
				}
				return false
			}
		},
		"a cluster without compression": func(s *spoke, c *clientcmdv1.Cluster) {
			c.DisableCompression = true
			s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Accept-Encoding") != "" {
					t.Errorf("asked for encoding %q", r.Header.Get("Accept-Encoding"))
				}
				return false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var cluster clientcmdv1.Cluster
			s := newSpoke(t, func(s *spoke) { change(s, &cluster) })
			cluster.Server, cluster.CertificateAuthorityData = s.URL+cluster.Server, s.ca.pem
			session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", cluster), options())
			got, err := session.Probe(t.Context())
			if err != nil || got != want {
				t.Errorf("got %+v, %v", got, err)
			}
			if !session.RetryAt().IsZero() {
				t.Error("not to be asked again at once")
			}
		})
	}
}

func TestProbeWithoutTLSWhereAllowed(t *testing.T) {
	s := newSpoke(t)
	plain := httptest.NewServer(s)
	defer plain.Close()
	o := options(func(o *Options) { o.AllowPlainHTTP = true })
	if _, err := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", clientcmdv1.Cluster{Server: plain.URL}), o).Probe(t.Context()); err != nil {
		t.Error(err)
	}
	o = options(func(o *Options) { o.AllowInsecureTLS = true })
	insecure := clientcmdv1.Cluster{Server: s.URL, InsecureSkipTLSVerify: true}
	if _, err := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", insecure), o).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// connectProxy is a proxy for TLS that answers CONNECT with a status.
func connectProxy(t testing.TB, status int) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		there, err := net.Dial("tcp", r.Host) //nolint:noctx // both ends close with the test
		if err != nil {
			t.Error(err)
			return
		}
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, buffered); _ = there.Close() }()
		go func() { _, _ = io.Copy(here, there); _ = here.Close() }()
	}))
	t.Cleanup(proxy.Close)
	return strings.Replace(proxy.URL, "http://", "http://user:c4n4ry-T0k3n@", 1)
}

// listener accepts connections and does with them what it is told.
func listener(t testing.TB, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go do(c)
		}
	}()
	return "https://" + l.Addr().String()
}

// always answers every request alike.
func always(status int, body string) func(*spoke, *clientcmdv1.Cluster) {
	return func(s *spoke, _ *clientcmdv1.Cluster) {
		s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
}

// at answers one path, and leaves others alone.
func at(path string, status int, body string) func(*spoke, *clientcmdv1.Cluster) {
	return func(s *spoke, _ *clientcmdv1.Cluster) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
}

// server gives the cluster another address.
func server(t testing.TB, do func(net.Conn)) func(*spoke, *clientcmdv1.Cluster) {
	t.Helper()
	return func(_ *spoke, c *clientcmdv1.Cluster) { c.Server = listener(t, do) }
}

type probeFailure struct {
	change func(*spoke, *clientcmdv1.Cluster)
	script string
	// want is part of the message that no other failure has.
	want string
	// silent is a failure that makes a cluster stale which answered before.
	silent bool
	// hole is one that has to be waited for.
	hole bool
}

func probeFailures(t testing.TB) map[string]probeFailure {
	t.Helper()
	const namespace = "/api/v1/namespaces/kube-system"
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	certificateOf := func(change func(*x509.Certificate)) func(*spoke, *clientcmdv1.Cluster) {
		return func(s *spoke, _ *clientcmdv1.Cluster) {
			s.TLS.Certificates = []tls.Certificate{issue(t, s.ca, change).pair}
		}
	}
	client := issue(t, nil, nil)
	return map[string]probeFailure{
		"401": {script: tokenScript("revoked"), want: `refuses the credential of access provider "exec" (401)`},
		"403": {change: at("/version", 403, ""), want: "may not read /version (403)"},
		"403 for the Namespace": {
			change: at(namespace, 403, ""), want: "may not get Namespace kube-system (403)",
		},
		"unknown authority": {
			change: func(_ *spoke, c *clientcmdv1.Cluster) { c.CertificateAuthorityData = issue(t, nil, nil).pem },
			want:   "signed by an unknown authority",
		},
		"wrong name":      {change: func(_ *spoke, c *clientcmdv1.Cluster) { c.TLSServerName = "other" }, want: `is not for name "other"`},
		"wrong address":   {change: certificateOf(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} }), want: `is not for name "127.0.0.1"`},
		"expired":         {change: certificateOf(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }), want: "has expired, or is not valid yet"},
		"not for servers": {change: certificateOf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), want: "is not valid; let the cluster have"},
		"a client certificate refused": {
			change: func(s *spoke, _ *clientcmdv1.Cluster) {
				s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
			},
			script: "cat <<'END'\n" + `{"apiVersion":"` + execV1 + `","kind":"ExecCredential","status":{"clientCertificateData":` +
				asJSON(t, string(client.pem)) + `,"clientKeyData":` + asJSON(t, string(client.keyPEM)) + "}}\nEND\n",
			want: "refuses the client certificate",
		},
		"no TLS": {change: func(_ *spoke, c *clientcmdv1.Cluster) {
			c.Server = strings.Replace(connectProxy(t, 500), "http://user:c4n4ry-T0k3n@", "https://", 1)
		}, want: "does not speak TLS"},
		"no TLS at all":               {change: server(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail\r\n"); _ = c.Close() }), want: "cannot agree on TLS"},
		"a client certificate wanted": {change: func(s *spoke, _ *clientcmdv1.Cluster) { s.TLS.ClientAuth = tls.RequireAnyClientCert }, want: "or that there is none"},
		"old TLS":                     {change: func(s *spoke, _ *clientcmdv1.Cluster) { s.TLS.MaxVersion = tls.VersionTLS11; s.EnableHTTP2 = false }, want: "cannot agree on TLS"},
		"refused":                     {change: func(_ *spoke, c *clientcmdv1.Cluster) { c.Server = "https://" + deadAddress(t) }, want: "refuses connections", silent: true},
		"a black hole":                {change: server(t, func(c net.Conn) { <-never; _ = c.Close() }), want: "does not answer in time", silent: true, hole: true},
		"a hole behind TLS": {change: func(s *spoke, _ *clientcmdv1.Cluster) {
			s.answer = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
		}, want: "does not answer in time", silent: true, hole: true},
		"a hole in the answer": {change: func(s *spoke, _ *clientcmdv1.Cluster) {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				_, _ = io.WriteString(w, "{")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return true
			}
		}, want: "does not answer in time", silent: true, hole: true},
		"closed": {change: server(t, func(c net.Conn) { _ = c.Close() }), want: "closes the connection without an answer", silent: true},
		"a proxy that is not there": {
			change: func(_ *spoke, c *clientcmdv1.Cluster) { c.ProxyURL = "http://user:c4n4ry-T0k3n@" + deadAddress(t) },
			want:   "cannot be reached or does not connect", silent: true,
		},
		"a SOCKS proxy that is not there": {
			change: func(_ *spoke, c *clientcmdv1.Cluster) { c.ProxyURL = "socks5://user:c4n4ry-T0k3n@" + deadAddress(t) },
			want:   "cannot be reached or does not connect", silent: true,
		},
		"a proxy that refuses": {
			change: func(_ *spoke, c *clientcmdv1.Cluster) { c.ProxyURL = connectProxy(t, http.StatusProxyAuthRequired) },
			want:   "refuses to connect to it with HTTP status 407", silent: true,
		},
		"HTML":                    {change: always(200, "<html>c4n4ry-T0k3n"), want: "not as a Kubernetes API server does (at /version)"},
		"another API":             {change: always(200, `{"version":"1"}`), want: "not as a Kubernetes API server does (at /version)"},
		"a version that is none":  {change: always(200, `{"gitVersion":"v1.2 c4n4ry-T0k3n"}`), want: "not as a Kubernetes API server does (at /version)"},
		"much":                    {change: always(200, strings.Repeat(" ", maxProbed)+`{"gitVersion":"v1.35.1"}`), want: "not as a Kubernetes API server does (at /version)"},
		"404":                     {change: always(404, ""), want: "not as a Kubernetes API server does (at /version)"},
		"another Namespace":       {change: at(namespace, 200, `{"metadata":{"name":"x","uid":"x"}}`), want: "server does (at " + namespace + ")"},
		"a Namespace without UID": {change: at(namespace, 200, `{"metadata":{"name":"kube-system"}}`), want: "server does (at " + namespace + ")"},
		"no Namespace":            {change: at(namespace, 404, ``), want: "server does (at " + namespace + ")"},
		"a redirect": {change: func(s *spoke, _ *clientcmdv1.Cluster) {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, "https://user:c4n4ry-T0k3n@elsewhere/", http.StatusFound)
				return true
			}
		}, want: "redirects to another address (HTTP status 302)"},
		"429":                 {change: always(429, ""), want: "has too many requests", silent: true},
		"500":                 {change: always(500, ""), want: "fails with HTTP status 500", silent: true},
		"503":                 {change: always(503, ""), want: "is not ready (HTTP status 503)", silent: true},
		"a plugin that fails": {script: "exit 9", want: `plugin "`},
	}
}

// session is one for the spoke of a failure.
func (tc *probeFailure) session(t *testing.T, source Source, cluster clientcmdv1.Cluster) *Session {
	t.Helper()
	if !tc.hole {
		return sessionFor(t, source, profile("p", cluster), options())
	}
	session := sessionFor(t, source, profile("p", cluster), options(func(o *Options) {
		o.Cluster.DialTimeout, o.Cluster.ProbeTimeout = 300*time.Millisecond, time.Second
	}))
	// The plugin is not what takes too long.
	if _, err := session.conn.credentials.get(t.Context(), session.conn.spec); err != nil {
		t.Fatal(err)
	}
	return session
}

// spoke is the one of a failure, and how a profile says where it is.
func (tc *probeFailure) spoke(t *testing.T) clientcmdv1.Cluster {
	t.Helper()
	var cluster clientcmdv1.Cluster
	s := newSpoke(t, func(s *spoke) {
		if tc.change != nil {
			tc.change(s, &cluster)
		}
	})
	if cluster.Server == "" {
		cluster.Server = s.URL
	}
	if cluster.CertificateAuthorityData == nil {
		cluster.CertificateAuthorityData = s.ca.pem
	}
	return cluster
}

func TestProbeFailures(t *testing.T) {
	for name, tc := range probeFailures(t) {
		t.Run(name, func(t *testing.T) {
			got := probeFails(t, tc)
			reason := api.ReasonRemoteClientCreationFailed
			if tc.script == "exit 9" {
				reason = api.ReasonAccessProviderFailed
			}
			if got.Reason != reason || !strings.Contains(got.Message, tc.want) {
				t.Errorf("got %s: %s; want %s with %q", got.Reason, got.Message, reason, tc.want)
			}
			if !strings.HasPrefix(got.Message, "ClusterProfile fleet/p: ") || !strings.Contains(got.Message, "; ") || strings.Contains(got.Message, "c4n4ry-T0k3n") {
				t.Errorf("message %q has to name the profile and the next step, and no secret", got.Message)
			}
		})
	}
}

// probeFails is the error of two sessions one after the other, which has to be the same: nothing in it may be of one
// connection only.
func probeFails(t *testing.T, tc probeFailure) *Error {
	t.Helper()
	cluster := tc.spoke(t)
	script := tc.script
	if script == "" {
		script = tokenScript(goodToken)
	}
	source := providers(plugin(t, script))
	var messages []string
	var last *Error
	for range 2 {
		session := tc.session(t, source, cluster)
		id, err := session.Probe(t.Context())
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("got %+v, %v; want an *Error", id, err)
		}
		messages, last = append(messages, e.Message), e
	}
	if messages[0] != messages[1] {
		t.Errorf("the message changes:\n%s\n%s", messages[0], messages[1])
	}
	return last
}

// TestASilentClusterIsStale holds that a cluster which answered before is told from one that never did.
func TestASilentClusterIsStale(t *testing.T) {
	for name, tc := range probeFailures(t) {
		if strings.Contains(name, "proxy") || tc.script != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			session := tc.session(t, providers(plugin(t, tokenScript(goodToken))), tc.spoke(t))
			session.conn.probed.Store(true)
			_, err := session.Probe(t.Context())
			e, ok := errors.AsType[*Error](err)
			if !ok || (e.Reason == api.ReasonRemoteClusterStale) != tc.silent {
				t.Errorf("got %+v, want stale: %t", err, tc.silent)
			}
		})
	}
}

// TestErrorsOfTheNetwork is about what tests cannot bring about.
func TestErrorsOfTheNetwork(t *testing.T) {
	e, wrong := specFor("/p").buildEndpoint(&Options{})
	if wrong != nil {
		t.Fatal(wrong)
	}
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 45678}, Err: err}
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"no such name":      {dial(&net.DNSError{IsNotFound: true, Name: "a"}), `the name of server "a" does not exist`},
		"no name server":    {dial(&net.DNSError{IsTimeout: true, Name: "a", Server: "10.0.0.1:53"}), `the name of server "a" cannot be looked up`},
		"no route":          {dial(syscall.EHOSTUNREACH), `there is no route to server "a"`},
		"no network":        {dial(syscall.ENETUNREACH), `there is no route to server "a"`},
		"reset":             {dial(syscall.ECONNRESET), `closes the connection`},
		"broken":            {dial(syscall.EPIPE), `closes the connection`},
		"deadline":          {dial(context.DeadlineExceeded), `does not answer in time`},
		"something else":    {dial(errors.New("c4n4ry-T0k3n")), `the connection to server "a" failed`},
		"a SOCKS failure":   {&net.OpError{Op: "socks connect", Err: errors.New("c4n4ry-T0k3n")}, "the proxy before"},
		"a name of a proxy": {&net.OpError{Op: "proxyconnect", Err: dial(&net.DNSError{IsNotFound: true})}, "the proxy before"},
	} {
		f := e.explainError(tc.err)
		if !strings.Contains(f.Error(), tc.want) || !f.unreachable || !errors.Is(f, tc.err) {
			t.Errorf("%s: got %v (silent: %t)", name, f, f.unreachable)
		}
		if strings.Contains(f.Error(), "45678") || strings.Contains(f.Error(), "c4n4ry-T0k3n") {
			t.Errorf("%s: %q repeats the error", name, f)
		}
	}
}
