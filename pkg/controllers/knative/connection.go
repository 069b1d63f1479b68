// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/values"
)

const (
	// polledProbeInterval is the interval between two probes of a cluster, and probeTimeout bounds a probe: the sum is the time
	// for which a silent cluster may go unnoticed.
	polledProbeInterval, probeTimeout = 10 * time.Second, 4 * time.Second
	// lossProbeTimeout bounds the first probe after the loss of a connection: a ping had no reply already, or the connection broke.
	lossProbeTimeout = 2 * time.Second
	// watchedProbeInterval is the interval for a cluster with live watches, whose connections end when the cluster is silent. Other
	// problems, such as a revoked credential, may go unnoticed for that time.
	watchedProbeInterval = 2 * time.Minute
	// unreachableRetry is the time until the next pass over a cluster that cannot be reached, unless the session knows better.
	unreachableRetry = 10 * time.Second
)

// connection is a session with the cluster that is watched through the session.
type connection struct {
	session *access.Session
	cluster *clustercache.Cluster
	clock   clock.PassiveClock

	mu  sync.Mutex // held during a probe
	uid types.UID

	// replaced reports that another cluster answers. The connection and its caches are of no use then.
	replaced atomic.Bool

	liveness liveness

	probeTimer probeTimer
}

// scheduleProbe probes the cluster when the interval since the last answer has passed, again and again until a probe fails. The first pass that
// finds the cluster again schedules the next probe.
func (c *connection) scheduleProbe() {
	c.probeTimer.schedule(
		func() time.Duration { return c.liveness.nextProbeAfter(c.clock.Now(), c.probeInterval()) },
		func() error {
			return c.liveness.probeAgain(func() error { return c.probe(context.Background()) })
		},
	)
}

// close ends the watches and the probes.
func (c *connection) close() {
	c.probeTimer.stop()
	c.cluster.Close()
}

// probeInterval returns the interval between two probes.
func (c *connection) probeInterval() time.Duration {
	if c.session.Pings() && c.cluster.Watched() {
		return watchedProbeInterval
	}
	return polledProbeInterval
}

// answerDeadline returns the time after which an answer of the cluster proves that the cluster is there.
func (c *connection) answerDeadline() time.Time {
	deadline := c.clock.Now().Add(-c.probeInterval())
	if lost := c.cluster.Lost(); lost.After(deadline) {
		return lost
	}
	return deadline
}

// probe reads the UID of the cluster, unless the cluster answered a moment ago.
func (c *connection) probe(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.sendProbe(ctx)
	if err != nil && ctx.Err() == nil {
		c.cluster.RecordLoss()
	}
	return err
}

// sendProbe implements probe. The caller holds the lock.
func (c *connection) sendProbe(ctx context.Context) error {
	if c.uid == "" {
		identity, err := c.session.Probe(ctx)
		if err != nil {
			return err
		}
		c.uid = identity.UID
		c.liveness.recordAnswer(c.clock.Now())
		return nil
	}
	if c.liveness.hasAnsweredAfter(c.answerDeadline()) {
		return nil
	}
	if err := c.session.EnsureCredential(ctx); err != nil {
		return err
	}
	start := c.clock.Now()
	probeCtx, cancel := context.WithTimeout(access.AsProbe(ctx), c.liveness.timeoutOfProbe(c.cluster.ConnectionLost()))
	defer cancel()
	uid, err := c.cluster.UID(probeCtx)
	switch {
	case err != nil && c.isBusy(err, start, probeCtx.Err() != nil):
		c.liveness.recordAnswer(start)
		return nil
	case err != nil && probeCtx.Err() != nil && ctx.Err() == nil && !isProviderFailure(err):
		return &access.Error{Reason: api.ReasonRemoteClusterStale, Message: fmt.Sprintf(
			"the cluster of ClusterProfile %q no longer responds, and the installation stays; check whether the API server of the cluster runs and can be reached from the hub",
			c.session.Profile()), Err: err}
	case isStatus(err), isUndecodable(err): // the error of session.Probe explains the answer, such as a missing permission or the page of a proxy
		identity, err := c.session.Probe(ctx)
		if err != nil {
			return err
		}
		uid = identity.UID
	case err != nil:
		return err
	}
	return c.compareIdentity(uid)
}

// isBusy reports whether a probe has failed although the cluster answers other requests: the cluster is busy, perhaps with requests of the manager,
// and not silent. A deadline before the end of the probe means that the rate limit of the cluster has no turn for the probe in time.
func (c *connection) isBusy(err error, start time.Time, isLate bool) bool {
	if isLate {
		return c.session.AnsweredSince(start)
	}
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*access.Error)) && c.session.AnsweredSince(c.answerDeadline())
}

// confirmIdentity reads the UID of the cluster, although the cluster may have answered a moment ago: the address may lead to another cluster since.
func (c *connection) confirmIdentity(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.session.EnsureCredential(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(access.AsProbe(ctx), probeTimeout)
	defer cancel()
	uid, err := c.cluster.UID(ctx)
	if err != nil {
		return fmt.Errorf("cannot confirm the identity of the cluster: %w", err)
	}
	return c.compareIdentity(uid)
}

// compareIdentity returns an error when another cluster has answered. The caller holds the lock.
func (c *connection) compareIdentity(uid types.UID) error {
	if uid != c.uid {
		c.replaced.Store(true)
		return &access.Error{Reason: api.ReasonRemoteClusterStale, Message: fmt.Sprintf(
			"another cluster (namespace kube-system has UID %q) answers at the address of ClusterProfile %q; the next pass connects to that cluster, and compares the UID with the record of this resource",
			message.Shorten(string(uid), message.MaxName), c.session.Profile())}
	}
	c.liveness.recordAnswer(c.clock.Now())
	return nil
}

// isProviderFailure reports whether an access provider gave no credential for a request.
func isProviderFailure(err error) bool {
	var failure *access.Error
	return errors.As(err, &failure) && failure.Reason == api.ReasonAccessProviderFailed
}

// isStatus reports whether an error is a status that the API server, or a proxy before the API server, answered.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isUndecodable reports whether an error is about an answer that a client cannot decode, such as the page of a gateway: client-go has no type for
// such an error. The error of a request without an answer is a *url.Error.
func isUndecodable(err error) bool {
	return err != nil && !isStatus(err) && !render.IsPending(err) && !errors.As(err, new(*access.Error)) && !errors.As(err, new(*url.Error)) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// connectionMonitor implements Monitor for one pass.
type connectionMonitor struct {
	*connection
	clusterValues *values.Cluster
}

var _ Monitor = connectionMonitor{}

// Probe implements Monitor.
func (m connectionMonitor) Probe(ctx context.Context) error { return m.probe(ctx) }

// ConfirmIdentity implements Monitor.
func (m connectionMonitor) ConfirmIdentity(ctx context.Context) error { return m.confirmIdentity(ctx) }

// UnreachableError implements Monitor.
func (m connectionMonitor) UnreachableError(err error) (*UnreachableError, bool) {
	retry := unreachableRetry
	if wait := m.session.RetryAt().Sub(m.clock.Now()); wait > 0 {
		retry = wait
	}
	return newUnreachableError(err, retry, m.clusterValues)
}

// newUnreachableError translates an error of package access. The result is false for any other error.
func newUnreachableError(err error, retry time.Duration, clusterValues *values.Cluster) (*UnreachableError, bool) {
	var failure *access.Error
	if !errors.As(err, &failure) {
		return nil, false
	}
	return &UnreachableError{
		Finding: status.Finding{Status: metav1.ConditionFalse, Reason: failure.Reason, Message: failure.Message}, Retry: retry, Values: clusterValues,
	}, true
}
