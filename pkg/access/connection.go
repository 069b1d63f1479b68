// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/util/flowcontrol"

	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
)

// connection is shared by profiles with equal connection specs: one credential, one transport, one set of limits.
type connection struct {
	key      string
	spec     *connectionSpec
	endpoint *endpoint
	opts     *Options
	pings    pingTimes

	credentials *credentialCache
	breaker     *circuitBreaker
	limiter     flowcontrol.RateLimiter
	// slots has an element for each request under way. probeSlot is one more slot, for a probe.
	slots, probeSlot chan struct{}
	// memoryShare is the share of the cluster's answers in the memory for the answers of all clusters.
	memoryShare *boundedhttp.Share
	// probed reports whether the cluster has answered a Probe.
	probed atomic.Bool
	// lastAnswer is the time of the last answer that was no error of the server, in nanoseconds of Unix time; 0 before the first such answer.
	lastAnswer atomic.Int64
	// usesHTTP2 reports whether the last answer came through HTTP/2.
	usesHTTP2 atomic.Bool

	mu            sync.Mutex
	transport     *http.Transport
	certificateID string
	closed        bool

	// diagnoses has the diagnoses of closed connections that are under way, by client certificate.
	diagnoses singleflight.Group

	// sessionCount counts the sessions of the connection. The lock of Sessions guards the field.
	sessionCount int
}

func newConnection(spec *connectionSpec, e *endpoint, opts *Options, plugins *pluginRunner) *connection {
	c := &connection{
		key: spec.connectionKey(), spec: spec, endpoint: e, opts: opts, pings: pingTimes{pingAfter, pingTimeout},
		breaker: &circuitBreaker{opts: opts.Breaker, clock: opts.Clock, jitter: opts.Jitter},
		limiter: flowcontrol.NewTokenBucketRateLimiter(opts.Cluster.QPS, opts.Cluster.Burst),
		slots:   make(chan struct{}, opts.Cluster.InFlight), probeSlot: make(chan struct{}, 1),
	}
	run := plugins.run // the credential cache runs one plugin at a time
	c.credentials = &credentialCache{clock: opts.Clock, fetch: func(ctx context.Context, started func()) (*credential, *fault) {
		got, failure := run(ctx, spec, started)
		if run = plugins.run; failure != nil {
			run = plugins.runAfterFailure
		}
		if failure == nil && !got.expires.IsZero() && !opts.Clock.Now().Before(got.expires) {
			got, failure = nil, providerFailed("compare the clocks of the hub and of the issuer of the credential",
				"%s gave a credential that has expired already", spec.describePlugin())
		}
		c.reportResult(failure)
		return got, failure
	}}
	return c
}

// reportResult passes the result of a plugin to the options. A plugin that was stopped has no result.
func (c *connection) reportResult(failure *fault) {
	switch {
	case c.opts.PluginResult == nil || failure != nil && failure.isLocal:
	case failure != nil:
		c.opts.PluginResult(c.spec.Provider, failure)
	default:
		c.opts.PluginResult(c.spec.Provider, nil)
	}
}

// roundTrip sends a request when the limits admit the request. The error is a *fault, or the error of the context when the
// request was not sent. alive returns the fault that forbids to send anything more.
func (c *connection) roundTrip(req *http.Request, alive func() *fault) (*http.Response, error) {
	// A request that the breaker would turn away does not wait for the limits.
	if f := c.breaker.blockingFault(); f != nil {
		return nil, f
	}
	slot, err := c.waitForTurn(req.Context())
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { <-slot; c.closeIdleConnections() })
	turn, f := c.breaker.admitRequest()
	if f != nil {
		leave()
		return nil, f
	}
	ctx, cancel := context.WithCancel(req.Context())
	resp, err := c.sendWithCredential(req.WithContext(ctx), alive)
	c.recordOutcome(turn, resp, err)
	if err != nil {
		cancel()
		leave()
		return nil, err
	}
	c.usesHTTP2.Store(resp.ProtoMajor >= 2)
	// A client reads a watch as a stream only with this status, and reads any other answer to the end.
	isStream := isWatch(req) && resp.StatusCode == http.StatusOK
	f = c.endpoint.normalizeResponse(req, resp)
	switch {
	case f != nil:
		c.breaker.recordOffence(f)
	case isStream && !isJSON(resp):
		f = c.endpoint.newRefusedWatchFault(req)
	case isStream:
		// A watch stays open for long and holds no slot once the answer has begun.
		resp.Body = &watchBody{resp.Body, cancel}
		leave()
		return resp, nil
	default:
		resp.Body = c.limitBody(ctx, cancel, resp, leave)
		return resp, nil
	}
	_ = resp.Body.Close()
	cancel()
	leave()
	return nil, f
}

// waitForTurn waits for the turn of a request, and returns the channel with the slot of the request. Requests that the cluster does not answer may
// hold all slots for a long time, and a probe has to find out whether the cluster answers other requests.
func (c *connection) waitForTurn(ctx context.Context) (slot <-chan struct{}, err error) {
	if err := c.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// The limiter returns an error of its own when the turn would come after the deadline.
		return nil, fmt.Errorf("the turn of the request comes too late: %w", context.DeadlineExceeded)
	}
	var probeSlot chan struct{} // nil for any other request, which gets no such slot
	if isProbe(ctx) {
		probeSlot = c.probeSlot
	}
	select {
	case c.slots <- struct{}{}:
		return c.slots, nil
	case probeSlot <- struct{}{}:
		return probeSlot, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ensureCredential gets a credential unless the connection has a valid credential. The error is as roundTrip's.
func (c *connection) ensureCredential(ctx context.Context) error {
	turn, f := c.breaker.admitRequest()
	if f != nil {
		return f
	}
	_, err := c.credentials.get(ctx, c.spec)
	if err == nil {
		c.breaker.releaseTrial(turn)
		return nil
	}
	if err == context.DeadlineExceeded { //nolint:errorlint // get returns an unwrapped error
		late := providerFailed("see which plugins of other clusters take long", "%s waits for the end of other plugins", c.spec.describePlugin()).withCause(err)
		late.isLocal = true
		err = late
	}
	c.recordOutcome(turn, nil, err)
	return err
}

// sendWithCredential sends a request, and once more with a new credential when the first was refused.
func (c *connection) sendWithCredential(req *http.Request, alive func() *fault) (*http.Response, error) {
	for again := false; ; again = true {
		credential, err := c.credentials.get(req.Context(), c.spec)
		if err != nil {
			return nil, err
		}
		if f := alive(); f != nil {
			return nil, f
		}
		out, err := c.prepareRequest(req, credential, again)
		if err != nil {
			return nil, err
		}
		transport := c.transportFor(credential)
		answer, err := transport.RoundTrip(out)
		if err != nil {
			if proxy, failure := transport.Proxy(out); proxy == nil && failure == nil && isConnectionClosed(err) {
				err = c.diagnoseClosedConnection(req.Context(), credential, err)
			}
			return nil, c.explainFailure(req.Context(), credential, err)
		}
		if answer.StatusCode != http.StatusUnauthorized || again {
			return answer, nil
		}
		c.credentials.forgetCredential(credential)
		if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
			return answer, nil
		}
		_ = answer.Body.Close() // the rest of the body may never come
	}
}

// prepareRequest returns the request to send, a changed copy of the caller's request.
func (c *connection) prepareRequest(req *http.Request, with *credential, again bool) (*http.Request, error) {
	out := req.Clone(req.Context())
	if again && req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, fmt.Errorf("cannot send the request again: %w", err)
		}
		out.Body = body
	}
	out.Header.Del("Authorization")
	if with.token != "" {
		out.Header.Set("Authorization", "Bearer "+with.token)
	}
	out.Header.Set("Accept", keepJSONMediaTypes(out.Header.Get("Accept")))
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", c.opts.UserAgent)
	}
	return out, nil
}

// explainFailure returns the fault of a request without an answer. A cancelled request says nothing about the cluster; an
// exceeded deadline does.
func (c *connection) explainFailure(ctx context.Context, with *credential, err error) error {
	switch ctx.Err() {
	case context.Canceled:
		return ctx.Err()
	case context.DeadlineExceeded:
		err = ctx.Err()
	}
	f := c.endpoint.explainError(err)
	if f.isPersistent {
		c.credentials.forgetCredential(with)
	}
	return c.asStaleIfProbed(f)
}

// diagnoseClosedConnection connects again to find out why the server closed the connection. Requests that end together share one diagnosis, which
// lasts until DialTimeout where the server accepts the certificate.
func (c *connection) diagnoseClosedConnection(ctx context.Context, with *credential, first error) error {
	if c.endpoint.base.Scheme != "https" {
		return first
	}
	diagnosis := c.diagnoses.DoChan(with.certificateID, func() (any, error) {
		return nil, c.endpoint.readTLSAlert(context.WithoutCancel(ctx), &c.opts.Cluster, with.certificate)
	})
	select {
	case result := <-diagnosis:
		if isCertificateRefused(result.Err) {
			return result.Err
		}
	case <-ctx.Done():
	}
	return first
}

// asStaleIfProbed separates clusters that never answered from clusters that stopped answering.
func (c *connection) asStaleIfProbed(f *fault) *fault {
	if c.probed.Load() {
		return f.asStale()
	}
	return f
}

// recordOutcome passes the outcome of a request to the circuit breaker.
func (c *connection) recordOutcome(turn admission, answer *http.Response, err error) {
	f, isFault := err.(*fault) //nolint:errorlint // sendWithCredential returns an unwrapped fault
	switch {
	case isFault && f.isResponseTimeout:
		c.breaker.recordOffence(f) // the cluster may answer other requests well, which says nothing about the next request like this
	case isFault && !f.isLocal:
		c.breaker.recordFailure(turn, f)
	case err != nil:
		c.breaker.releaseTrial(turn)
	default:
		if f := c.endpoint.explainStatus(answer.StatusCode); f != nil {
			c.breaker.recordFailure(turn, c.asStaleIfProbed(f))
			return
		}
		if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode < http.StatusInternalServerError {
			c.lastAnswer.Store(c.opts.Clock.Now().UnixNano())
		}
		c.breaker.recordSuccess(turn)
	}
}

// transportFor returns the transport for a credential. A connection belongs to the client certificate of its handshake, so
// that another certificate gets another transport; requests under way keep the old transport.
func (c *connection) transportFor(with *credential) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil && c.certificateID == with.certificateID {
		return c.transport
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	c.transport, c.certificateID = c.endpoint.newTransport(&c.opts.Cluster, with.certificate, c.pings), with.certificateID
	return c.transport
}

// close ends the connection after the last session. Requests under way run to the end.
func (c *connection) close() {
	c.credentials.close()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.closeIdleConnections()
}

// closeIdleConnections closes idle connections once the last session has gone. Every request calls the function at its end:
// HTTP/2 does not close a connection by itself that becomes idle after that.
func (c *connection) closeIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// isWatch reports whether the response to a request lasts until the client or the server ends the response.
func isWatch(req *http.Request) bool {
	watch := req.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}
