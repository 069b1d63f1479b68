// Copyright Contributors to the Open Cluster Management project

package access

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	inventoryaccess "sigs.k8s.io/cluster-inventory-api/pkg/access"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// must is the session of a profile.
func must(t testing.TB, s *Sessions, p *clusterinventoryv1alpha1.ClusterProfile) *Session {
	t.Helper()
	session, err := s.For(p)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func over(s *Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func TestSessionsStayWhileNothingChanges(t *testing.T) {
	script, runs := counting(t, tokenScript(goodToken))
	s := newSpoke(t)
	source := providers(plugin(t, script))
	sessions := NewSessions(source, options())
	defer sessions.Close()
	p := profile("p", s.cluster())
	p.Status.AccessProviders[0].Cluster.Extensions = []clientcmdv1.NamedExtension{extension(extensionConfig, `{"a":1,"b":2}`)}
	first := must(t, sessions, p)
	for i := range 100 {
		p = p.DeepCopy()
		p.ResourceVersion, p.Labels = fmt.Sprint(i), map[string]string{"touched": fmt.Sprint(i)}
		p.Status.Conditions = nil
		p.Status.AccessProviders[0].Cluster.Extensions = []clientcmdv1.NamedExtension{extension("other", fmt.Sprint(i)), extension(extensionConfig, `{"b":2, "a":1}`)}
		// The file was read again, with another provider beside.
		state := providers(source.State().Providers[0].ExecConfig.Command).State()
		state.Providers = append(state.Providers, Provider{Name: fmt.Sprint(i), ExecConfig: &clientcmdapi.ExecConfig{Command: "/x"}})
		source.set(state)
		if got := must(t, sessions, p); got != first {
			t.Fatalf("another session after change %d of nothing", i)
		}
		if _, err := first.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if runs() != 1 {
		t.Errorf("the plugin ran %d times", runs())
	}
}

// TestFirstConnectionsGetFastPings holds that pings are rare on most connections of a large fleet.
func TestFirstConnectionsGetFastPings(t *testing.T) {
	sessions := NewSessions(providers(plugin(t, tokenScript(goodToken))), options())
	defer sessions.Close()
	for i := range fastPingConnections + 3 {
		session := must(t, sessions, profile(fmt.Sprint(i), clientcmdv1.Cluster{Server: fmt.Sprintf("https://127.0.0.1:%d", i+1)}))
		want := pingTimes{after: fastPingAfter, timeout: fastPingTimeout}
		if i >= fastPingConnections {
			want = pingTimes{after: pingAfter, timeout: pingTimeout}
		}
		if got := session.conn.pings; got != want {
			t.Errorf("connection %d gets pings at %+v", i, got)
		}
	}
	moved := must(t, sessions, profile("0", clientcmdv1.Cluster{Server: "https://127.0.0.1:1000"}))
	if got := moved.conn.pings; got.after != fastPingAfter {
		t.Errorf("the connection that replaces a first connection gets pings at %+v", got)
	}
}

func TestSessionsAreReplaced(t *testing.T) {
	s := newSpoke(t)
	for name, change := range map[string]func(*clusterinventoryv1alpha1.ClusterProfile, *Provider){
		"another server": func(p *clusterinventoryv1alpha1.ClusterProfile, _ *Provider) {
			p.Status.AccessProviders[0].Cluster.Server += "/prefix"
		},
		"another CA": func(p *clusterinventoryv1alpha1.ClusterProfile, _ *Provider) {
			c := &p.Status.AccessProviders[0].Cluster
			c.CertificateAuthorityData = append(issue(t, nil, nil).pem, c.CertificateAuthorityData...)
		},
		"another proxy": func(p *clusterinventoryv1alpha1.ClusterProfile, _ *Provider) {
			p.Status.AccessProviders[0].Cluster.ProxyURL = connectProxy(t, http.StatusOK)
		},
		"another TLS server name": func(p *clusterinventoryv1alpha1.ClusterProfile, _ *Provider) {
			p.Status.AccessProviders[0].Cluster.TLSServerName = "127.0.0.1"
		},
		"another configuration": func(p *clusterinventoryv1alpha1.ClusterProfile, _ *Provider) {
			p.Status.AccessProviders[0].Cluster.Extensions = []clientcmdv1.NamedExtension{extension(extensionConfig, `{"a":1}`)}
		},
		"another argument": func(_ *clusterinventoryv1alpha1.ClusterProfile, p *Provider) { p.ExecConfig.Args = []string{"x"} },
		"another variable": func(_ *clusterinventoryv1alpha1.ClusterProfile, p *Provider) {
			p.ExecConfig.Env = []clientcmdapi.ExecEnvVar{{Name: "A", Value: "s3cr3t"}}
		},
		"another plugin": func(_ *clusterinventoryv1alpha1.ClusterProfile, p *Provider) {
			p.ExecConfig.Command = plugin(t, tokenScript(goodToken))
		},
		"the plugin in another version": func(_ *clusterinventoryv1alpha1.ClusterProfile, p *Provider) {
			writePlugin(t, p.ExecConfig.Command, "true;"+tokenScript(goodToken))
		},
		"the plugin written again": func(_ *clusterinventoryv1alpha1.ClusterProfile, p *Provider) {
			if err := os.Chtimes(p.ExecConfig.Command, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		},
		"another provider": func(p *clusterinventoryv1alpha1.ClusterProfile, provider *Provider) {
			provider.Name, p.Status.AccessProviders[0].Name = "other", "other"
		},
	} {
		t.Run(name, func(t *testing.T) {
			provider := providers(plugin(t, tokenScript(goodToken))).State().Providers[0]
			source := &fakeSource{}
			source.set(FileState{Configured: true, Providers: []Provider{provider}})
			sessions := NewSessions(source, options())
			defer sessions.Close()
			p := profile("p", s.cluster())
			old := must(t, sessions, p)
			if _, err := old.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			changed := provider
			exec := *provider.ExecConfig
			changed.ExecConfig = &exec
			p = p.DeepCopy()
			change(p, &changed)
			source.set(FileState{Configured: true, Providers: []Provider{changed}})
			next := must(t, sessions, p)
			if next == old || !over(old) || over(next) {
				t.Fatal("the session is not replaced")
			}
			if _, err := next.Probe(t.Context()); err != nil {
				t.Error(err)
			}
			before := s.requests.Load()
			if _, err := old.Probe(t.Context()); reasonOf(err) != api.ReasonRemoteClusterStale || !strings.HasPrefix(err.Error(), "ClusterProfile fleet/p: ") {
				t.Errorf("got %v of the old session", err)
			}
			if s.requests.Load() != before {
				t.Error("the old session still sends")
			}
		})
	}
}

// TestReplacedSessionsLeaveNothing holds that connections and watches end, and that what is under way does not.
func TestReplacedSessionsLeaveNothing(t *testing.T) {
	states := sync.Map{}
	arrived, leave := make(chan struct{}), make(chan struct{})
	s := newSpoke(t, func(s *spoke) {
		s.Config.ConnState = func(c net.Conn, state http.ConnState) { states.Store(c, state) }
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case isWatch(r):
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case r.URL.Path == "/slow":
				arrived <- struct{}{}
				<-leave
				_, _ = io.WriteString(w, "done")
			default:
				return false
			}
			return true
		}
	})
	sessions := NewSessions(providers(plugin(t, tokenScript(goodToken))), options())
	defer sessions.Close()
	p := profile("p", s.cluster())
	old := must(t, sessions, p)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/x?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := old.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	slow := make(chan string)
	go func() {
		_, body, err := ask(t.Context(), old, http.MethodGet, "/slow", "")
		slow <- fmt.Sprint(body, err)
	}()
	<-arrived
	sessions.Forget(types.NamespacedName{Namespace: "fleet", Name: "p"})
	if _, err := io.ReadAll(watch.Body); err == nil {
		t.Error("the watch goes on")
	}
	_ = watch.Body.Close()
	if len(old.watches) != 0 {
		t.Error("the watch is still on the list")
	}
	close(leave)
	if got := <-slow; got != "done<nil>" {
		t.Errorf("what was under way ended with %s", got)
	}
	waitUntil(t, func() bool {
		open := 0
		states.Range(func(_, state any) bool {
			if state != http.StateClosed {
				open++
			}
			return true
		})
		return open == 0
	})
}

// TestProfilesThatSayTheSameShare holds that one cluster has one credential and one set of limits, and that each profile
// still is told about itself.
func TestProfilesThatSayTheSameShare(t *testing.T) {
	script, runs := counting(t, tokenScript(goodToken))
	s := newSpoke(t)
	sessions := NewSessions(providers(plugin(t, script)), options())
	defer sessions.Close()
	a, b := must(t, sessions, profile("a", s.cluster())), must(t, sessions, profile("b", s.cluster()))
	for _, session := range []*Session{a, b} {
		if _, err := session.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if runs() != 1 || len(sessions.connections) != 1 {
		t.Errorf("%d runs, %d connections", runs(), len(sessions.connections))
	}
	sessions.Forget(a.Profile())
	sessions.Forget(a.Profile())
	if _, err := a.Probe(t.Context()); reasonOf(err) != api.ReasonRemoteClusterStale || !strings.Contains(err.Error(), "fleet/a") {
		t.Errorf("got %v", err)
	}
	if !b.RetryAt().IsZero() {
		t.Error("the end of one profile's session counts against the other's cluster")
	}
	if _, err := b.Probe(t.Context()); err != nil || runs() != 1 {
		t.Errorf("got %v after %d runs", err, runs())
	}
	s.Close()
	if _, err := b.Probe(t.Context()); !strings.Contains(fmt.Sprint(err), "fleet/b") {
		t.Errorf("got %v", err)
	}
	sessions.Forget(b.Profile())
	if len(sessions.connections) != 0 || len(sessions.sessions) != 0 {
		t.Error("something is left")
	}
}

func TestAProfileThatLosesItsProviderLosesItsSession(t *testing.T) {
	source := providers(plugin(t, tokenScript(goodToken)))
	sessions := NewSessions(source, options())
	defer sessions.Close()
	p := profile("p", newSpoke(t).cluster())
	old := must(t, sessions, p)
	source.set(FileState{Configured: true})
	if _, err := sessions.For(p); reasonOf(err) != api.ReasonAccessProviderNotConfigured || !over(old) {
		t.Errorf("got %v, over: %t", err, over(old))
	}
	source.set(FileState{})
	if _, err := sessions.For(p); reasonOf(err) != api.ReasonMulticlusterDisabled {
		t.Errorf("got %v", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	started := make(chan struct{})
	sessions := NewSessions(providers(plugin(t, "sleep 600")), options(func(o *Options) { o.Plugin.Timeout = time.Hour; o.Cluster.ProbeTimeout = time.Hour }))
	p := profile("p", newSpoke(t).cluster())
	session := must(t, sessions, p)
	got := make(chan error)
	go func() {
		close(started)
		_, err := session.Probe(t.Context())
		got <- err
	}()
	<-started
	waitUntil(t, func() bool { return len(sessions.plugins.slots) == 1 })
	sessions.Close()
	sessions.Close()
	if err := <-got; reasonOf(err) != api.ReasonRemoteClusterStale {
		t.Errorf("under way: got %v", err)
	}
	if _, err := session.Probe(t.Context()); reasonOf(err) != api.ReasonRemoteClusterStale || !over(session) {
		t.Errorf("an old session: got %v", err)
	}
	if _, err := sessions.For(p); reasonOf(err) != api.ReasonRemoteClusterStale {
		t.Errorf("a new one: got %v", err)
	}
	sessions.Forget(session.Profile())
	waitUntil(t, func() bool { return len(sessions.plugins.slots) == 0 })
}

// TestManyProfilesAtOnce holds that sessions can be had, used, replaced and forgotten in parallel, with every policy that
// lets profiles add something: each cluster gets the token that was made for it.
func TestManyProfilesAtOnce(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			// Each profile has a path of its own, and a token that names it twice.
			id := strings.SplitN(r.URL.Path, "/", 3)[1]
			if r.Header.Get("Authorization") != "Bearer "+id+"."+id {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/"+id)
			r.Header.Set("Authorization", "Bearer "+goodToken)
			return false
		}
	})
	source := providers(plugin(t, `echo '{"apiVersion":"`+execV1+`","kind":"ExecCredential","status":{"token":"'$1.$ID'"}}'`), func(p *Provider) {
		p.ProfileSourcedCLIArgsPolicy, p.ProfileSourcedEnvVarsPolicy = inventoryaccess.ProfileSourcedCLIArgsPolicyAppend, inventoryaccess.ProfileSourcedEnvVarsPolicyReplace
		p.ExecConfig.Env = append(make([]clientcmdapi.ExecEnvVar, 0, 8), clientcmdapi.ExecEnvVar{Name: "ID", Value: "nobody"})
		p.ExecConfig.Args = make([]string, 0, 8)
	})
	sessions := NewSessions(source, options())
	defer sessions.Close()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			for round := range 2 {
				id := fmt.Sprintf("profile-%d-%d", i, round)
				cluster := s.cluster()
				cluster.Server += "/" + id
				cluster.Extensions = []clientcmdv1.NamedExtension{extension(extensionArgs, `["`+id+`"]`), extension(extensionEnvs, `{"ID":"`+id+`"}`)}
				session, err := sessions.For(profile(fmt.Sprint("p", i), cluster))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := session.Probe(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if i%2 == 0 {
				sessions.Forget(types.NamespacedName{Namespace: "fleet", Name: fmt.Sprint("p", i)})
			}
		})
	}
	all.Wait()
	if len(sessions.sessions) != 50 || len(sessions.connections) != 50 {
		t.Errorf("%d sessions and %d connections, want 50", len(sessions.sessions), len(sessions.connections))
	}
}

// TestASessionThatEndsWhileAPluginRunsSendsNothing holds that a request which waits for a credential is not sent to where
// the profile does not lead any more.
func TestASessionThatEndsWhileAPluginRunsSendsNothing(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	s := newSpoke(t)
	sessions := NewSessions(providers(plugin(t, "while [ ! -e "+gate+" ]; do sleep 0.02; done\n"+tokenScript(goodToken))), options(func(o *Options) { o.Breaker.Threshold = 1 }))
	defer sessions.Close()
	a, b := must(t, sessions, profile("a", s.cluster())), must(t, sessions, profile("b", s.cluster()))
	of := map[*Session]chan error{a: make(chan error), b: make(chan error)}
	for session, got := range of {
		go func() {
			_, _, err := ask(t.Context(), session, http.MethodGet, "/version", "")
			got <- err
		}()
	}
	waitUntil(t, func() bool { return len(a.conn.slots) == 2 && len(sessions.plugins.slots) == 1 })
	sessions.Forget(a.Profile())
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-of[a]; reasonOf(err) != api.ReasonRemoteClusterStale {
		t.Errorf("got %v", err)
	}
	if err := <-of[b]; err != nil {
		t.Error(err)
	}
	if s.requests.Load() != 1 {
		t.Errorf("%d requests came, want that of the other profile", s.requests.Load())
	}
	if !b.RetryAt().IsZero() {
		t.Error("the end of one profile's session counts against the other's cluster")
	}
}
