// Copyright Contributors to the Open Cluster Management project

package access

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestPluginResults holds that each run of a plugin is reported once, and that a plugin that was stopped has no result.
func TestPluginResults(t *testing.T) {
	got := map[string][]bool{}
	opts := options(func(o *Options) {
		o.PluginResult = func(provider string, err error) { got[provider] = append(got[provider], err == nil) }
	}).withDefaults()
	runner := newPluginRunner(&opts)
	run := func(provider, script string) error {
		spec := specFor(plugin(t, script))
		spec.Provider = provider
		c := newConnection(spec, &endpoint{}, &opts, runner)
		_, err := c.credentials.get(t.Context(), spec)
		return err
	}
	if err := run("good", tokenScript("x")); err != nil {
		t.Fatal(err)
	}
	for provider, script := range map[string]string{
		"failing": "exit 1",
		"expired": `echo '{"apiVersion":"` + execV1 + `","kind":"ExecCredential","status":{"token":"x","expirationTimestamp":"2020-01-01T00:00:00Z"}}'`,
	} {
		if run(provider, script) == nil {
			t.Errorf("plugin %q did not fail", provider)
		}
	}
	spec := specFor(plugin(t, "sleep 600"))
	spec.Provider = "stopped"
	c := newConnection(spec, &endpoint{}, &opts, runner)
	c.credentials.mu.Lock()
	c.credentials.start(t.Context())
	pending := c.credentials.pending
	c.credentials.mu.Unlock()
	c.credentials.close()
	<-pending.done
	want := map[string][]bool{"good": {true}, "failing": {false}, "expired": {false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestCountConnections holds that a connection counts once, whatever the number of its profiles, with the state of its circuit breaker.
func TestCountConnections(t *testing.T) {
	at, now := newSpoke(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	sessions := NewSessions(providers(plugin(t, tokenScript(goodToken))), options(func(o *Options) { o.Clock = now }))
	t.Cleanup(sessions.Close)
	for _, name := range []string{"one", "two"} {
		if _, err := sessions.For(profile(name, at.cluster())); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, sessions.CountConnections()); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}
	}
	holds(map[string]int{"Closed": 1, "Open": 0, "HalfOpen": 0})
	breaker := sessions.sessions[types.NamespacedName{Namespace: "fleet", Name: "one"}].conn.breaker
	breaker.recordFailure(let(t, breaker), providerFailed("", "no credential").withCause(errors.New("no")))
	holds(map[string]int{"Closed": 0, "Open": 1, "HalfOpen": 0})
	now.SetTime(now.Now().Add(time.Hour))
	holds(map[string]int{"Closed": 0, "Open": 0, "HalfOpen": 1})
	breaker.recordSuccess(let(t, breaker))
	holds(map[string]int{"Closed": 1, "Open": 0, "HalfOpen": 0})
	sessions.Forget(types.NamespacedName{Namespace: "fleet", Name: "one"})
	sessions.Forget(types.NamespacedName{Namespace: "fleet", Name: "two"})
	holds(map[string]int{"Closed": 0, "Open": 0, "HalfOpen": 0})
}
