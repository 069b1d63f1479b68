// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestProbe compares the answers of an API server with the result of a probe.
func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		fails  bool
	}{
		"an API server that is ready":                     {http.StatusOK, false},
		"an API server that is not ready":                 {http.StatusInternalServerError, true},
		"a proxy without its API server":                  {http.StatusBadGateway, true},
		"an API server that hides /readyz":                {http.StatusForbidden, false},
		"a server without /readyz":                        {http.StatusNotFound, false},
		"an API server that does not know the credential": {http.StatusUnauthorized, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }))
			defer server.Close()
			l, err := NewLiveness(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.probe(t.Context()); (err != nil) != c.fails {
				t.Errorf("error of the probe is %v", err)
			}
		})
	}
}

// TestProbeWithoutServer covers a hub that is stopped.
func TestProbeWithoutServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	l, err := NewLiveness(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.probe(t.Context()); err == nil {
		t.Error("the probe of a stopped server succeeds")
	}
}

// TestOutage follows an outage of a minute: the hub counts as reachable during a short silence, and the log has one line for the
// beginning and one for the end.
func TestOutage(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	l := &Liveness{clock: now, firstAnswer: make(chan struct{})}
	refused := errors.New("connection refused")
	for _, step := range []struct {
		after   time.Duration
		failure error
		answers bool
		lines   int
	}{
		{0, refused, false, 1}, // a start without the hub
		{probeInterval, refused, false, 1},
		{outageReminder, refused, false, 2},
		{probeInterval, nil, true, 3},
		{probeInterval, refused, true, 3},
		{probeInterval, nil, true, 3}, // a short silence
		{silenceLimit, refused, true, 3},
		{time.Second, refused, false, 4},
		{time.Minute, refused, false, 4},
		{time.Second, nil, true, 5},
	} {
		now.Step(step.after)
		l.recordProbe(logger, step.failure)
		if answers := l.Answers(); answers != step.answers || len(lines) != step.lines {
			t.Errorf("after %s and %v: answers=%t, the log has %d lines: %+v", step.after, step.failure, answers, len(lines), step)
		}
	}
	if !strings.Contains(lines[0], "connection refused") || !strings.Contains(lines[4], "1m32s") {
		t.Errorf("the log lacks the cause or the duration: %q", lines)
	}
}

// TestAwaitAnswer starts without a hub: the probes become rarer, and the first answer ends the wait.
func TestAwaitAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin, probes := time.Now(), 0
		l := &Liveness{clock: clock.RealClock{}, firstAnswer: make(chan struct{}), probe: func(context.Context) error {
			if probes++; time.Since(begin) < time.Minute {
				return errors.New("connection refused")
			}
			return nil
		}}
		go l.Run(ctx)
		if err := l.AwaitAnswer(ctx); err != nil || !l.Answers() {
			t.Errorf("error is %v, the hub answers: %t", err, l.Answers())
		}
		if probes < 5 || probes > 15 {
			t.Errorf("%d probes in a minute", probes)
		}
	})
}
