// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// probeInterval is the pause after a probe that the hub's API server answered, and the longest pause after a failed probe.
	probeInterval = 10 * time.Second
	// firstProbeRetry is the pause after the first failed probe. Each further failure doubles the pause.
	firstProbeRetry = time.Second
	// probeTimeout is the time that the API server has to answer a probe.
	probeTimeout = 5 * time.Second
	// silenceLimit is the time without an answer after which the hub counts as unreachable.
	silenceLimit = 30 * time.Second
	// outageReminder is the time between two log lines about the same outage.
	outageReminder = 5 * time.Minute
)

// Liveness reports whether the hub's API server answers. Run probes the API server; callers of the other methods never send a
// request.
type Liveness struct {
	host  string
	probe func(context.Context) error
	clock clock.Clock
	// firstAnswer is closed when the API server has answered for the first time.
	firstAnswer chan struct{}

	mu         sync.Mutex
	lastAnswer time.Time // zero before the first answer
	// outageSince and loggedAt belong to the outage that the log reports; both are zero without an outage.
	outageSince, loggedAt time.Time
}

// NewLiveness returns the Liveness of the hub of a configuration.
func NewLiveness(config *rest.Config) (*Liveness, error) {
	config = rest.CopyConfig(config)
	config.Timeout = probeTimeout
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create the client for probes of the hub: %w", err)
	}
	return &Liveness{
		host: config.Host, clock: clock.RealClock{}, firstAnswer: make(chan struct{}),
		probe: func(ctx context.Context) error {
			return explainProbe(client.RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error())
		},
	}, nil
}

// explainProbe returns nil for every answer of a working API server: a hub may refuse or lack /readyz. An API server that lacks
// its storage, or that refuses the credential, is of no use to the manager.
func explainProbe(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	switch code := status.Status().Code; {
	case code == http.StatusUnauthorized:
		return errors.New("the API server refuses the manager's credential (401)")
	case code >= http.StatusInternalServerError:
		return fmt.Errorf("the API server reports by /readyz that it is not ready (%d)", code)
	default:
		return nil
	}
}

// Run probes the API server until the context ends, and logs the beginning and the end of an outage.
func (l *Liveness) Run(ctx context.Context) {
	logger := log.FromContext(ctx)
	backoff := newProbeBackoff()
	for {
		err := l.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := wait.Jitter(probeInterval, 0.1)
		if err != nil {
			pause = backoff.Step()
		} else {
			backoff = newProbeBackoff()
		}
		l.recordProbe(logger, err)
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(pause):
		}
	}
}

// newProbeBackoff spreads the probes of managers that lost the same hub.
func newProbeBackoff() wait.Backoff {
	return wait.Backoff{Duration: firstProbeRetry, Factor: 2, Jitter: 0.5, Steps: 10, Cap: probeInterval}
}

func (l *Liveness) recordProbe(logger logr.Logger, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if failure == nil {
		l.recordAnswer(logger, now)
		return
	}
	if l.answeredBefore(now) || now.Sub(l.loggedAt) < outageReminder {
		return
	}
	if l.outageSince.IsZero() {
		if l.outageSince = l.lastAnswer; l.outageSince.IsZero() {
			l.outageSince = now
		}
	}
	l.loggedAt = now
	logger.Info("the hub is unreachable; the manager waits: check the hub's API server, the network to it and the manager's credential",
		"server", l.host, "cause", failure.Error(), "duration", now.Sub(l.outageSince).Round(time.Second).String())
}

func (l *Liveness) recordAnswer(logger logr.Logger, now time.Time) {
	if !l.outageSince.IsZero() {
		logger.Info("the hub is reachable again", "server", l.host, "duration", now.Sub(l.outageSince).Round(time.Second).String())
	}
	if l.lastAnswer.IsZero() {
		close(l.firstAnswer)
	}
	l.lastAnswer, l.outageSince, l.loggedAt = now, time.Time{}, time.Time{}
}

// AwaitAnswer returns when the API server has answered for the first time. The error is that of the context.
func (l *Liveness) AwaitAnswer(ctx context.Context) error {
	select {
	case <-l.firstAnswer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answers reports whether the API server has answered within silenceLimit.
func (l *Liveness) Answers() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answeredBefore(l.clock.Now())
}

func (l *Liveness) answeredBefore(now time.Time) bool {
	return !l.lastAnswer.IsZero() && now.Sub(l.lastAnswer) <= silenceLimit
}
