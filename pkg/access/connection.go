// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/flowcontrol"
)

// connection is what profiles share that say the same: one credential, one transport, one set of limits.
type connection struct {
	key      string
	recipe   *recipe
	endpoint *endpoint
	opts     *Options

	wallet  *wallet
	breaker *breaker
	limiter flowcontrol.RateLimiter
	slots   chan struct{}
	// seen tells that the cluster has answered a Probe.
	seen atomic.Bool
	// answered is when it last answered anything, in nanoseconds of Unix time; 0 before it did.
	answered atomic.Int64
	// pings tells that the last answer came through HTTP/2.
	pings atomic.Bool

	mu            sync.Mutex
	transport     *http.Transport
	certificateID string
	closed        bool

	// users are the sessions that have it; under the lock of Sessions.
	users int
}

func newConnection(r *recipe, e *endpoint, opts *Options, plugins *runner) *connection {
	c := &connection{
		key: r.key(), recipe: r, endpoint: e, opts: opts,
		breaker: &breaker{opts: opts.Breaker, clock: opts.Clock, jitter: opts.Jitter},
		limiter: flowcontrol.NewTokenBucketRateLimiter(opts.Cluster.QPS, opts.Cluster.Burst),
		slots:   make(chan struct{}, opts.Cluster.InFlight),
	}
	run := plugins.run // there is one run at a time
	c.wallet = &wallet{clock: opts.Clock, obtain: func(ctx context.Context, started func()) (*credential, *fault) {
		got, wrong := run(ctx, r, started)
		if run = plugins.run; wrong != nil {
			run = plugins.runAgain
		}
		if wrong == nil && !got.expires.IsZero() && !opts.Clock.Now().Before(got.expires) {
			return nil, providerFailed("compare the clocks of the hub and of who issues the credential",
				"%s gave a credential that has expired already", r.plugin())
		}
		return got, wrong
	}}
	return c
}

// roundTrip sends a request in its turn. The error is a *fault, or the context's own when the cluster was not asked.
// alive says why nothing may be sent any more.
func (c *connection) roundTrip(req *http.Request, alive func() *fault) (*http.Response, error) {
	// Whoever would only be turned away does not have to wait for it.
	if f := c.breaker.blocked(); f != nil {
		return nil, f
	}
	if err := c.enter(req.Context()); err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { <-c.slots; c.tidy() })
	turn, f := c.breaker.admit()
	if f != nil {
		leave()
		return nil, f
	}
	answer, err := c.attempt(req, alive)
	c.report(turn, answer, err)
	if err != nil {
		leave()
		return nil, err
	}
	c.pings.Store(answer.ProtoMajor >= 2)
	switch {
	case answer.StatusCode == http.StatusSwitchingProtocols:
		leave()
	case isWatch(req):
		// Its answer is all there is to wait for: it stays open for long and is expected to.
		leave()
	default:
		answer.Body = &body{ReadCloser: answer.Body, left: c.opts.Cluster.MaxAnswer, done: leave}
	}
	return answer, nil
}

// enter waits for the turn of a request.
func (c *connection) enter(ctx context.Context) error {
	if err := c.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The limiter does not wait for a turn after the deadline, and says so in its own words.
		return fmt.Errorf("the turn of the request comes too late: %w", context.DeadlineExceeded)
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt sends a request, and once more with a new credential when the first was refused.
func (c *connection) attempt(req *http.Request, alive func() *fault) (*http.Response, error) {
	for again := false; ; again = true {
		credential, err := c.wallet.get(req.Context(), c.recipe)
		if err != nil {
			return nil, err
		}
		if f := alive(); f != nil {
			return nil, f
		}
		out, err := c.prepare(req, credential, again)
		if err != nil {
			return nil, err
		}
		transport := c.transportFor(credential)
		answer, err := transport.RoundTrip(out)
		if err != nil {
			if proxy, wrong := transport.Proxy(out); proxy == nil && wrong == nil && brokenOff(err) {
				err = c.second(req.Context(), credential, err)
			}
			return nil, c.failed(req.Context(), credential, err)
		}
		if answer.StatusCode != http.StatusUnauthorized || again {
			return answer, nil
		}
		c.wallet.drop(credential)
		if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
			return answer, nil
		}
		// Read, so that the connection can be used again; what it says is of no use.
		_, _ = io.CopyN(io.Discard, answer.Body, 4<<10)
		_ = answer.Body.Close()
	}
}

// prepare makes the request that is sent: the caller's own is not changed.
func (c *connection) prepare(req *http.Request, with *credential, again bool) (*http.Request, error) {
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
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", c.opts.UserAgent)
	}
	return out, nil
}

// failed says why there was no answer. A caller who gave up says nothing about the cluster; a caller's deadline does.
func (c *connection) failed(ctx context.Context, with *credential, err error) error {
	switch ctx.Err() {
	case context.Canceled:
		return ctx.Err()
	case context.DeadlineExceeded:
		err = ctx.Err()
	}
	f := c.endpoint.explain(err)
	if f.decided {
		c.wallet.drop(with)
	}
	return c.asSeen(f)
}

// second is a second opinion on why the server closed the connection.
func (c *connection) second(ctx context.Context, with *credential, first error) error {
	if c.endpoint.base.Scheme != "https" {
		return first
	}
	if why := c.endpoint.ask(ctx, &c.opts.Cluster, with.certificate); certificateRefused(why) {
		return why
	}
	return first
}

// asSeen tells a cluster that never answered from one that does not any more.
func (c *connection) asSeen(f *fault) *fault {
	if c.seen.Load() {
		return f.stale()
	}
	return f
}

// report tells the breaker how a request ended.
func (c *connection) report(turn ticket, answer *http.Response, err error) {
	f, isFault := err.(*fault) //nolint:errorlint // attempt returns it as it is
	switch {
	case isFault && !f.ours:
		c.breaker.fail(turn, f)
	case err != nil:
		c.breaker.pass(turn)
	default:
		if f := c.endpoint.refused(answer.StatusCode); f != nil {
			c.breaker.fail(turn, c.asSeen(f))
			return
		}
		c.answered.Store(c.opts.Clock.Now().UnixNano())
		c.breaker.succeed(turn)
	}
}

// transportFor is the transport for a credential. Connections belong to the client certificate that they were made with,
// so that another one gets a transport of its own; requests under way keep the old.
func (c *connection) transportFor(with *credential) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil && c.certificateID == with.certificateID {
		return c.transport
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	c.transport, c.certificateID = c.endpoint.transport(&c.opts.Cluster, with.certificate), with.certificateID
	return c.transport
}

// close ends what nobody uses any more. Requests under way come to their end.
func (c *connection) close() {
	c.wallet.close()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.tidy()
}

// tidy closes what is idle once nobody uses the connection any more. It is called after each request: in HTTP/2, what is
// idle later than the end does not close by itself.
func (c *connection) tidy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// isWatch tells that an answer goes on until somebody ends it.
func isWatch(req *http.Request) bool {
	watch := req.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// body is that of an answer, up to a limit.
type body struct {
	io.ReadCloser
	left int64
	done func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errors.New("the cluster's answer is longer than allowed")
	}
	return n, err
}

func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
