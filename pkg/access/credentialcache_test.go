// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// mint is a plugin for a credential cache. Each run waits for what to give.
type mint struct {
	runs chan chan<- minted
}

type minted struct {
	credential *credential
	wrong      *fault
}

func newTestCache(now *clocktesting.FakePassiveClock) (*credentialCache, *mint) {
	m := &mint{runs: make(chan chan<- minted, 100)}
	return &credentialCache{clock: now, fetch: func(ctx context.Context, started func()) (*credential, *fault) {
		started()
		give := make(chan minted, 1)
		m.runs <- give
		select {
		case got := <-give:
			return got.credential, got.wrong
		case <-ctx.Done():
			return nil, closedFault().withCause(ctx.Err())
		}
	}}, m
}

// give ends the next run.
func (m *mint) give(token string, expires time.Time) {
	give := <-m.runs
	give <- minted{credential: &credential{token: token, expires: expires}}
}

func token(t *testing.T, w *credentialCache) string {
	t.Helper()
	c, err := w.get(t.Context(), specFor("/p"))
	if err != nil {
		t.Fatal(err)
	}
	return c.token
}

func TestCredentialCacheAsksOnceForAll(t *testing.T) {
	w, m := newTestCache(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := w.get(t.Context(), specFor("/p")); err != nil || got.token != "one" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	m.give("one", time.Time{})
	all.Wait()
	if got := token(t, w); got != "one" || len(m.runs) != 0 {
		t.Errorf("got %s, and %d more runs", got, len(m.runs))
	}
}

func TestCredentialCacheKeepsWithoutExpiration(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	w, m := newTestCache(now)
	go m.give("one", time.Time{})
	token(t, w)
	now.SetTime(now.Now().Add(1000 * time.Hour))
	if got := token(t, w); got != "one" || len(m.runs) != 0 {
		t.Errorf("got %s, and %d more runs", got, len(m.runs))
	}
}

func TestCredentialCacheRenewsBeforeExpiration(t *testing.T) {
	start := time.Unix(1000, 0)
	now := clocktesting.NewFakePassiveClock(start)
	w, m := newTestCache(now)
	go m.give("one", start.Add(time.Hour))
	token(t, w)

	now.SetTime(start.Add(time.Hour - maxEarly - time.Second))
	if got := token(t, w); got != "one" || len(m.runs) != 0 {
		t.Fatalf("got %s, and %d runs, long before the end", got, len(m.runs))
	}
	// The old one serves while the new one is fetched, and after that has failed.
	now.SetTime(start.Add(time.Hour - maxEarly))
	if got := token(t, w); got != "one" {
		t.Fatalf("got %s", got)
	}
	(<-m.runs) <- minted{wrong: providerFailed("", "for now")}
	landed := func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.pending == nil }
	waitUntil(t, landed)
	if got := token(t, w); got != "one" || !landed() {
		t.Fatalf("got %s, asked again at once: %t", got, !landed())
	}
	now.SetTime(now.Now().Add(renewPause))
	if got := token(t, w); got != "one" {
		t.Fatalf("got %s", got)
	}
	m.give("two", start.Add(2*time.Hour))
	waitUntil(t, func() bool { return token(t, w) == "two" })
	if len(m.runs) != 0 {
		t.Errorf("%d more runs", len(m.runs))
	}
}

func TestCredentialCacheRenewsShortLivedOnesLate(t *testing.T) {
	start := time.Unix(1000, 0)
	now := clocktesting.NewFakePassiveClock(start)
	w, m := newTestCache(now)
	go m.give("one", start.Add(100*time.Second))
	token(t, w)
	now.SetTime(start.Add(89 * time.Second))
	if token(t, w); len(m.runs) != 0 {
		t.Error("renewed with more than a tenth of its time left")
	}
	now.SetTime(start.Add(90 * time.Second))
	token(t, w)
	m.give("two", time.Time{})
}

func TestCredentialCacheDoesNotUseWhatHasExpired(t *testing.T) {
	start := time.Unix(1000, 0)
	now := clocktesting.NewFakePassiveClock(start)
	w, m := newTestCache(now)
	go m.give("one", start.Add(time.Hour))
	token(t, w)
	now.SetTime(start.Add(time.Hour))
	go m.give("two", start.Add(2*time.Hour))
	if got := token(t, w); got != "two" {
		t.Errorf("got %s", got)
	}
}

func TestCredentialCacheDropsOnlyWhatWasRefused(t *testing.T) {
	w, m := newTestCache(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	go m.give("one", time.Time{})
	old, err := w.get(t.Context(), specFor("/p"))
	if err != nil {
		t.Fatal(err)
	}
	w.forgetCredential(old)
	go m.give("two", time.Time{})
	if got := token(t, w); got != "two" {
		t.Fatalf("got %s", got)
	}
	// Another request was refused with the old one, too.
	w.forgetCredential(old)
	if got := token(t, w); got != "two" || len(m.runs) != 0 {
		t.Errorf("got %s, and %d more runs", got, len(m.runs))
	}
}

func TestCredentialCacheTellsFailuresAndForgetsThem(t *testing.T) {
	w, m := newTestCache(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	failed := providerFailed("", "failed")
	go func() { (<-m.runs) <- minted{wrong: failed} }()
	if _, err := w.get(t.Context(), specFor("/p")); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	go m.give("one", time.Time{})
	if got := token(t, w); got != "one" {
		t.Errorf("got %s", got)
	}
}

func TestCredentialCacheGoesOnWhenCallersGiveUp(t *testing.T) {
	w, m := newTestCache(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := w.get(ctx, specFor("/p"))
		gaveUp <- err
	}()
	give := <-m.runs
	cancel()
	if err := <-gaveUp; err != context.Canceled { //nolint:errorlint // it has to be the context's own
		t.Errorf("got %v", err)
	}
	give <- minted{credential: &credential{token: "one"}}
	if got := token(t, w); got != "one" || len(m.runs) != 0 {
		t.Errorf("got %s, and %d more runs", got, len(m.runs))
	}
}

func TestCredentialCacheDeadlines(t *testing.T) {
	w, m := newTestCache(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := w.get(ctx, specFor("/p"))
	f, ok := errors.AsType[*fault](err)
	if !ok || f.reason != api.ReasonAccessProviderFailed || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a plugin that runs: got %v", err)
	}
	m.give("one", time.Time{})

	w, _ = newTestCache(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	w.fetch = func(ctx context.Context, _ func()) (*credential, *fault) {
		<-ctx.Done()
		return nil, closedFault()
	}
	defer w.close()
	if _, err = w.get(ctx, specFor("/p")); err != context.DeadlineExceeded { //nolint:errorlint // it has to be the context's own
		t.Errorf("a plugin whose turn has not come: got %v", err)
	}
}

func TestCredentialCacheClosesWhileAPluginRuns(t *testing.T) {
	w, m := newTestCache(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	got := make(chan error)
	go func() {
		_, err := w.get(t.Context(), specFor("/p"))
		got <- err
	}()
	<-m.runs
	w.close()
	for range 2 {
		f, ok := errors.AsType[*fault](<-got)
		if !ok || f.reason != api.ReasonRemoteClusterStale {
			t.Errorf("got %v", f)
		}
		go func() {
			_, err := w.get(t.Context(), specFor("/p"))
			got <- err
		}()
	}
	<-got
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	c := &credential{token: "s3cr3t"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(verb, c); got != withheld && got != `"`+withheld+`"` {
			t.Errorf("%s: %s", verb, got)
		}
	}
}

// TestEnsureCredential holds that a caller can wait for the plugin before a request with a deadline, and that a deadline during a run of the plugin
// keeps no later request from the cluster.
func TestEnsureCredential(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	s := newSpoke(t)
	session := sessionFor(t, providers(plugin(t, "while [ ! -e "+gate+" ]; do sleep 0.02; done\n"+tokenScript(goodToken))), profile("a", s.cluster()), options())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ensured := make(chan error)
	go func() { ensured <- session.EnsureCredential(ctx) }()
	waitUntil(t, func() bool {
		session.conn.credentials.mu.Lock()
		defer session.conn.credentials.mu.Unlock()
		return session.conn.credentials.pending != nil && session.conn.credentials.pending.started.Load()
	})
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, _, err := ask(late, session, http.MethodGet, "/version", ""); reasonOf(err) != api.ReasonAccessProviderFailed {
		t.Errorf("got %v", err)
	}
	if !session.RetryAt().IsZero() {
		t.Error("no request is sent after the deadline of one request")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ensured; err != nil {
		t.Error(err)
	}
	if s.requests.Load() != 0 {
		t.Error("the credential was sent")
	}
	if _, err := session.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}
