// Copyright Contributors to the Open Cluster Management project

package remote

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/trust"
)

// server is a TLS server on the loopback interface that counts what it is asked for.
type server struct {
	*httptest.Server
	requests atomic.Int64
}

func serve(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that the client gives up
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// policy allows the server.
func (s *server) policy() Policy {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return Policy{
		AllowedHosts: []string{s.host()}, AllowedNetworks: []string{"127.0.0.0/8", "::1/128"}, RootCAs: pool,
		Timeout: time.Minute,
	}
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "https://") }

func fetcher(t *testing.T, p Policy) *Fetcher {
	t.Helper()
	f, err := New(p, trust.IsPublic)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const content = "kind: ConfigMap\n"

func text(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, content) }

func TestLocate(t *testing.T) {
	cases := map[string]struct {
		url  string
		want string // of the refusal; empty when it is allowed
	}{
		"an allowed host":                     {"https://one.example.com/a.yaml", ""},
		"an allowed host in another case":     {"https://ONE.example.com/a.yaml", ""},
		"an allowed host with its port":       {"https://one.example.com:443/a.yaml", ""},
		"an allowed host with a root dot":     {"https://one.example.com./a.yaml", ""},
		"a host below an allowed domain":      {"https://a.b.example.org/a.yaml", ""},
		"a listed port":                       {"https://two.example.com:8443/a.yaml", ""},
		"a digest":                            {"https://one.example.com/a.yaml#sha256=" + digest("x"), ""},
		"a digest in capitals":                {"https://one.example.com/a.yaml#SHA256=" + strings.ToUpper(digest("x")), ""},
		"another host":                        {"https://example.net/a.yaml", `host "example.net" is not allowed`},
		"another port":                        {"https://one.example.com:8443/a.yaml", "is not allowed"},
		"the listed host without its port":    {"https://two.example.com/a.yaml", "is not allowed"},
		"the domain itself":                   {"https://example.org/a.yaml", "is not allowed"},
		"a host that only ends alike":         {"https://evilexample.org/a.yaml", "is not allowed"},
		"a host that only begins alike":       {"https://one.example.com.evil.net/a.yaml", "is not allowed"},
		"an address":                          {"https://127.0.0.1/a.yaml", "is not allowed"},
		"plain HTTP":                          {"http://one.example.com/a.yaml", `its scheme is "http"`},
		"a file":                              {"/etc/passwd", "files are not read"},
		"a file URL":                          {"file:///etc/passwd", "files are not read"},
		"a relative path":                     {"../a.yaml", "files are not read"},
		"nothing":                             {"", "files are not read"},
		"another scheme":                      {"gopher://one.example.com/", `its scheme is "gopher"`},
		"a credential":                        {"https://user:secret@one.example.com/a.yaml", "holds a credential"},
		"no host":                             {"https:///a.yaml", "has no host"},
		"two URLs in one":                     {"https://one.example.com/a.yaml,/etc/passwd", ""}, // one URL with a comma in its path
		"a short digest":                      {"https://one.example.com/a.yaml#sha256=abcd", "is no digest"},
		"a fragment that is no digest":        {"https://one.example.com/a.yaml#top", "is no digest"},
		"a URL with a control character":      {"https://one.example.com/\x00", "it is no URL"},
		"a host hidden behind a backslash":    {`https://one.example.com\@evil.net/`, "it is no URL"},
		"a host that only is the user's name": {"https://one.example.com@evil.net/", "holds a credential"},
	}
	f := fetcher(t, Policy{AllowedHosts: []string{"one.example.com", "two.example.com:8443", "*.example.org", "*", "*evil.net"}})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := f.parseLocation(tc.url)
			if tc.want == "" {
				if err != nil {
					t.Errorf("locate(%q): %v, want it allowed", tc.url, err)
				}
				return
			}
			refused := (*RefusedError)(nil)
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("locate(%q): %v, want a refusal with %q", tc.url, err, tc.want)
			}
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("locate(%q): %v names the credential", tc.url, err)
			}
		})
	}
}

func TestDialPolicy(t *testing.T) {
	policy, err := newDialPolicy([]string{"10.1.0.0/16"}, trust.IsPublic)
	if err != nil {
		t.Fatal(err)
	}
	public := []string{"8.8.8.8", "140.82.121.3", "2606:4700::1111", "10.1.2.3", "::ffff:8.8.8.8", "::ffff:10.1.2.3"}
	private := []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.2.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
		"240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
		"2001:db8::1", "::127.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "fec0::1",
	}
	for _, a := range public {
		if !policy.permitsAddress(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
	for _, a := range private {
		if policy.permitsAddress(netip.MustParseAddr(a)) {
			t.Errorf("%s is allowed", a)
		}
	}
	if err := policy.controlDial("tcp", "not an address", nil); err == nil {
		t.Error("an address that cannot be judged is allowed")
	}
	if _, err := newDialPolicy([]string{"10.0.0.0/99"}, trust.IsPublic); err == nil {
		t.Error("a network that is none is accepted")
	}
}

func TestFetch(t *testing.T) {
	var self *server
	self = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/content":
			text(w, r)
		case "/here":
			http.Redirect(w, r, "/content", http.StatusFound)
		case "/there":
			http.Redirect(w, r, "https://169.254.169.254/latest/meta-data", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+self.host()+"/content", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, 2048))
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 512))
			}
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<html>")
		}
	})
	p := self.policy()
	p.MaxBytes = 1024
	f := fetcher(t, p)
	base := self.URL
	cases := map[string]struct {
		url, want string
		refused   bool
	}{
		"content":                           {base + "/content", content, false},
		"content with its digest":           {base + "/content#sha256=" + digest(content), content, false},
		"content with another digest":       {base + "/content#sha256=" + digest("other"), "its SHA-256 is " + digest(content), true},
		"a redirect on the host":            {base + "/here", content, false},
		"a redirect to another host":        {base + "/there", "it redirects to https://169.254.169.254", true},
		"a redirect to plain HTTP":          {base + "/plain", "it redirects to http://", true},
		"a redirect without end":            {base + "/loop", "redirects more than three times", true},
		"a document that is too large":      {base + "/large", "it has more than 1024 bytes", true},
		"a document without end":            {base + "/endless", "it has more than 1024 bytes", true},
		"a page that says it is not there":  {base + "/missing", `the server answers "404 Not Found"`, false},
		"a query stays out of the messages": {base + "/missing?token=secret", "/missing?...", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			doc, err := f.Fetch(context.Background(), tc.url)
			if doc != nil {
				want := &Document{
					URL: strings.Split(tc.url, "#")[0], SHA256: digest(tc.want), Pinned: strings.Contains(tc.url, "#"), Data: []byte(tc.want),
				}
				if diff := cmp.Diff(want, doc); diff != "" {
					t.Errorf("Fetch (-want +got):\n%s", diff)
				}
				return
			}
			checkFailure(t, err, tc.refused, tc.want)
		})
	}
}

func checkFailure(t *testing.T, err error, wantRefused bool, want string) {
	t.Helper()
	refused, unavailable := (*RefusedError)(nil), (*UnavailableError)(nil)
	if errors.As(err, &refused) != wantRefused || errors.As(err, &unavailable) == wantRefused || !strings.Contains(err.Error(), want) {
		t.Errorf("Fetch: %T %v; want refused %t, %q", err, err, wantRefused, want)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("Fetch: %v names the credential", err)
	}
}

// An allowed name that resolves inside is refused when the connection is made.
func TestFetchRefusesPrivateAddresses(t *testing.T) {
	s := serve(t, text)
	p := s.policy()
	p.AllowedNetworks = nil
	_, err := fetcher(t, p).Fetch(context.Background(), s.URL+"/content")
	refused := (*RefusedError)(nil)
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "not public") {
		t.Errorf("Fetch: %v, want a refusal", err)
	}
	u, _ := url.Parse(s.URL)
	p.AllowedHosts = []string{"localhost:" + u.Port()}
	_, err = fetcher(t, p).Fetch(context.Background(), "https://localhost:"+u.Port()+"/content")
	if !errors.As(err, &refused) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("Fetch of a name: %v, want a refusal without the address", err)
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("the server got %d requests, want none", n)
	}
}

func TestFetchUsesNoProxy(t *testing.T) {
	s := serve(t, text)
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	if _, err := fetcher(t, s.policy()).Fetch(context.Background(), s.URL); err != nil {
		t.Errorf("Fetch: %v, want the proxy of the environment unused", err)
	}
}

func TestFetchTrustsNobodyElse(t *testing.T) {
	s := serve(t, text)
	p := s.policy()
	p.RootCAs = x509.NewCertPool()
	_, err := fetcher(t, p).Fetch(context.Background(), s.URL)
	if err == nil || !strings.Contains(err.Error(), "its certificate is not trusted") {
		t.Errorf("Fetch: %v, want the certificate refused", err)
	}
}

// A server that never finishes costs the deadline, not a worker.
func TestFetchEnds(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	p := s.policy()
	p.Timeout = 200 * time.Millisecond
	_, err := fetcher(t, p).Fetch(context.Background(), s.URL)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 200ms") {
		t.Errorf("Fetch: %v, want a deadline", err)
	}
}

// A document is fetched once; a failure is tried again after a minute.
func TestFetchOnce(t *testing.T) {
	var broken atomic.Bool
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		text(w, r)
	})
	now := time.Unix(1_000_000, 0)
	var mu sync.Mutex
	p := s.policy()
	p.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	advance := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	f := fetcher(t, p)

	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, err := f.Fetch(context.Background(), s.URL+"/one"); err != nil {
				t.Errorf("Fetch: %v", err)
			}
		})
	}
	wg.Wait()
	expect := func(what string, want int64) {
		t.Helper()
		if n := s.requests.Load(); n != want {
			t.Errorf("%s: %d requests, want %d", what, n, want)
		}
	}
	expect("32 callers", 1)
	broken.Store(true)
	advance(24 * time.Hour)
	if _, err := f.Fetch(context.Background(), s.URL+"/one"); err != nil {
		t.Errorf("Fetch of what is kept: %v", err)
	}
	expect("a day later", 1)
	for range 3 {
		if _, err := f.Fetch(context.Background(), s.URL+"/two"); err == nil {
			t.Error("Fetch from a broken server succeeds")
		}
	}
	expect("three tries at a broken server", 2)
	broken.Store(false)
	advance(30 * time.Second)
	if _, err := f.Fetch(context.Background(), s.URL+"/two"); err == nil {
		t.Error("Fetch tries again before its time")
	}
	advance(31 * time.Second)
	if _, err := f.Fetch(context.Background(), s.URL+"/two"); err != nil {
		t.Errorf("Fetch after a minute: %v", err)
	}
	expect("after a minute", 3)

	broken.Store(true)
	for i := range 10 {
		if _, err := f.Fetch(context.Background(), fmt.Sprintf("%s/broken%d", s.URL, i)); err == nil {
			t.Error("Fetch from a broken server succeeds")
		}
		advance(retryAfter)
	}
	if n := len(f.kept); n != 3 {
		t.Errorf("%d results are kept after two documents and ten failures, of which one is younger than a minute", n)
	}
}

// A caller that gives up does not take the document from the others.
func TestFetchOutlivesItsFirstCaller(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		text(w, r)
	})
	f := fetcher(t, s.policy())
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() {
		_, err := f.Fetch(ctx, s.URL)
		first <- err
	}()
	<-arrived
	second, giveUp := context.WithCancel(context.Background())
	giveUp()
	if _, err := f.Fetch(second, s.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("Fetch with a context that is done: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller, who stops waiting: %v", err)
	}
	close(release)
	if doc, err := f.Fetch(context.Background(), s.URL); err != nil || string(doc.Data) != content {
		t.Errorf("Fetch after it: %v", err)
	}
}
