// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// storeMax stores the value unless the stored value is greater.
func storeMax(most *atomic.Int64, value int64) {
	for before := most.Load(); value > before && !most.CompareAndSwap(before, value); {
		before = most.Load()
	}
}

func TestRequestsTakeTurns(t *testing.T) {
	var at, most atomic.Int64
	arrived, leave := make(chan struct{}, 100), make(chan struct{})
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if isWatch(r) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return true
			}
			storeMax(&most, at.Add(1))
			arrived <- struct{}{}
			<-leave
			at.Add(-1)
			return false
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(func(o *Options) { o.Cluster.InFlight = 3 }))
	// Watches do not count.
	for range 5 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/watched?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := session.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close() //nolint:errcheck // the test is over
	}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if _, _, err := ask(t.Context(), session, http.MethodGet, "/version", ""); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		<-arrived
	}
	// Who waits may give up, and that says nothing about the cluster.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := ask(ctx, session, http.MethodGet, "/version", "")
	if _, told := errors.AsType[*Error](err); told || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	probed := make(chan error)
	go func() {
		_, err := session.Probe(t.Context())
		probed <- err
	}()
	<-arrived // the probe does not wait for the other requests
	close(leave)
	all.Wait()
	if err := <-probed; err != nil {
		t.Error(err)
	}
	if most.Load() != 4 {
		t.Errorf("%d at once, want 3 and the probe", most.Load())
	}
}

func TestRequestsAreLimitedPerSecond(t *testing.T) {
	s := newSpoke(t)
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()),
		options(func(o *Options) { o.Cluster.QPS, o.Cluster.Burst = 0.0001, 2 }))
	if _, err := session.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := session.Probe(t.Context())
	if _, told := errors.AsType[*Error](err); told || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "fleet/p") {
		t.Errorf("got %v", err)
	}
	if !session.RetryAt().IsZero() || s.requests.Load() != 2 {
		t.Error("our own limit counts against the cluster, or does not limit")
	}
}

func TestAnswersAreLimited(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = io.WriteString(w, r.URL.Query().Get("text"))
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(func(o *Options) { o.Cluster.MaxAnswer = 5 }))
	if _, got, err := ask(t.Context(), session, http.MethodGet, "/?text=12345", ""); got != "12345" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, got, err := ask(t.Context(), session, http.MethodGet, "/?text=123456", ""); err == nil {
		t.Errorf("got %q", got)
	}
}

func TestACallerWhoGivesUpSaysNothing(t *testing.T) {
	arrived := make(chan struct{})
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
			arrived <- struct{}{}
			<-r.Context().Done()
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(func(o *Options) { o.Breaker.Threshold = 1 }))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := session.Probe(ctx)
	if _, told := errors.AsType[*Error](err); told || !errors.Is(err, context.Canceled) || !session.RetryAt().IsZero() {
		t.Errorf("got %v, asked again at %v", err, session.RetryAt())
	}
}

// TestOneClusterDoesNotHoldUpOthers holds that clusters and plugins which hang cost the others nothing.
func TestOneClusterDoesNotHoldUpOthers(t *testing.T) {
	s := newSpoke(t)
	gate := filepath.Join(t.TempDir(), "gate")
	state := providers(plugin(t, tokenScript(goodToken))).State()
	hangs := providers(plugin(t, "while [ ! -e "+gate+" ]; do sleep 0.05; done\n"+tokenScript(goodToken))).State()
	hangs.Providers[0].Name = "hangs"
	state.Providers = append(state.Providers, hangs.Providers[0])
	source := &fakeSource{}
	source.set(state)
	sessions := NewSessions(source, options(func(o *Options) { o.Plugin.Parallel = 2 }))
	defer sessions.Close()

	release := make(chan struct{})
	hole := profile("hole", clientcmdv1.Cluster{Server: listener(t, func(c net.Conn) { <-release; _ = c.Close() }), CertificateAuthorityData: s.ca.pem})
	slow := profile("slow", s.cluster())
	slow.Status.AccessProviders[0].Name = "hangs"
	var dead atomic.Int64
	var all sync.WaitGroup
	for _, p := range []*Session{must(t, sessions, hole), must(t, sessions, slow)} {
		for range 20 {
			dead.Add(1)
			all.Go(func() {
				_, _ = p.Probe(t.Context())
				dead.Add(-1)
			})
		}
	}
	waitUntil(t, func() bool { return len(sessions.plugins.slots) > 0 })
	for i := range 20 {
		cluster := s.cluster()
		// Each has a connection of its own.
		cluster.Extensions = []clientcmdv1.NamedExtension{extension(extensionConfig, strconv.Itoa(i))}
		if _, err := must(t, sessions, profile("good", cluster)).Probe(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if dead.Load() == 0 {
		t.Error("nothing hung: the test shows nothing")
	}
	close(release)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// TestFailingFastNeedsNoTurn holds that a cluster which is left alone is told about at once, and for any number of times.
func TestFailingFastNeedsNoTurn(t *testing.T) {
	session := sessionFor(t, providers(plugin(t, "exit 1")), profile("p", newSpoke(t).cluster()),
		options(func(o *Options) { o.Cluster.QPS, o.Cluster.Burst = 0.0001, 2 }))
	for i := range 10 {
		_, err := session.Probe(t.Context())
		if _, told := errors.AsType[*Error](err); !told || errors.Is(err, ErrNotAsked) != (i > 0) {
			t.Errorf("probe %d: got %v", i, err)
		}
	}
}

// TestWhoWaitedIsTurnedAwayToo holds that requests which wait behind one that fails do not each find out for themselves.
func TestWhoWaitedIsTurnedAwayToo(t *testing.T) {
	arrived, fail := make(chan struct{}, 10), make(chan struct{})
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(http.ResponseWriter, *http.Request) bool {
			arrived <- struct{}{}
			<-fail
			panic(http.ErrAbortHandler)
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()),
		options(func(o *Options) { o.Cluster.InFlight, o.Breaker.Threshold = 1, 1 }))
	errs := make(chan error)
	for range 5 {
		go func() {
			_, _, err := ask(t.Context(), session, http.MethodGet, "/version", "")
			errs <- err
		}()
	}
	<-arrived
	close(fail)
	notAsked := 0
	for range 5 {
		err := <-errs
		if _, told := errors.AsType[*Error](err); !told {
			t.Errorf("got %v", err)
		}
		if errors.Is(err, ErrNotAsked) {
			notAsked++
		}
	}
	if notAsked != 4 || len(arrived) != 0 {
		t.Errorf("%d were not asked for, want 4", notAsked)
	}
}

// TestClientsDoNotTryAgainWhenTheClusterIsLeftAlone is about client-go, which repeats what ended with some errors.
func TestClientsDoNotTryAgainWhenTheClusterIsLeftAlone(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.EnableHTTP2 = false
		s.answer = func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()),
		options(func(o *Options) { o.Breaker.Threshold, o.Cluster.DialTimeout = 1, time.Second }))
	_, err := session.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(t.Context(), "x", metav1.GetOptions{})
	if _, told := errors.AsType[*Error](err); !told || s.requests.Load() > 2 {
		t.Errorf("got %v after %d requests", err, s.requests.Load())
	}
}

// TestLostConnectionIsDiagnosedOnce holds that the requests which a lost connection ends connect once to find out why, and that the cluster gets requests
// after that.
func TestLostConnectionIsDiagnosedOnce(t *testing.T) {
	const requests = 8
	var connections atomic.Int32
	arrived := make(chan struct{}, requests)
	s := newSpoke(t, func(s *spoke) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/lost" {
				return false
			}
			arrived <- struct{}{}
			<-r.Context().Done()
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()),
		options(func(o *Options) { o.Cluster.InFlight, o.Cluster.DialTimeout = requests, 3*time.Second }))
	if _, err := session.Probe(t.Context()); err != nil { // all requests use the connection of the probe
		t.Fatal(err)
	}
	before := connections.Load()
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if _, _, err := ask(t.Context(), session, http.MethodGet, "/lost", ""); err == nil || errors.Is(err, ErrNotAsked) {
				t.Errorf("got %v", err)
			}
		})
	}
	for range requests {
		<-arrived
	}
	s.CloseClientConnections()
	all.Wait()
	if n := connections.Load() - before; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if _, err := session.Probe(t.Context()); err != nil {
		t.Errorf("the cluster is left alone: %v", err)
	}
}
