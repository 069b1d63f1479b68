// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// A credential is renewed when a tenth of its validity is left, and at most maxEarly before the expiration.
	refreshPart = 10
	maxEarly    = time.Minute
	// renewPause is between attempts to renew a credential that is still good.
	renewPause = 10 * time.Second
)

// credentialCache holds the credential of a connection. One run of the plugin serves all callers, and continues after a
// caller has given up.
type credentialCache struct {
	// fetch runs the plugin, and calls started when the plugin starts.
	fetch func(ctx context.Context, started func()) (*credential, *fault)
	clock clock.PassiveClock

	mu      sync.Mutex
	current *credential
	// renewAt is the time to renew a valid credential; zero is never.
	renewAt time.Time
	pending *credentialRequest
	closed  bool
}

// credentialRequest is one run of the plugin. result and fault are set when done is closed.
type credentialRequest struct {
	done    chan struct{}
	cancel  context.CancelFunc
	started atomic.Bool
	result  *credential
	fault   *fault
}

// get returns a valid credential. The error is a *fault, or the error of the context when the plugin has not started.
func (cache *credentialCache) get(ctx context.Context, r *connectionSpec) (*credential, error) {
	cache.mu.Lock()
	if cache.closed {
		cache.mu.Unlock()
		return nil, closedFault()
	}
	now := cache.clock.Now()
	if c := cache.current; c != nil && (c.expires.IsZero() || now.Before(c.expires)) {
		if cache.pending == nil && !cache.renewAt.IsZero() && !now.Before(cache.renewAt) {
			cache.renewAt = now.Add(renewPause)
			cache.start(ctx)
		}
		cache.mu.Unlock()
		return c, nil
	}
	if cache.pending == nil {
		cache.start(ctx)
	}
	f := cache.pending
	cache.mu.Unlock()

	select {
	case <-f.done:
		if f.fault != nil {
			return nil, f.fault
		}
		return f.result, nil
	case <-ctx.Done():
		if f.started.Load() && ctx.Err() == context.DeadlineExceeded {
			late := providerFailed("see what the plugin waits for; "+runByHand,
				"%s gave no credential in time", r.describePlugin()).withCause(ctx.Err())
			late.isLocal = true // the plugin may give the credential later, within its own time
			return nil, late
		}
		return nil, ctx.Err()
	}
}

// start runs the plugin. The caller holds the lock.
func (cache *credentialCache) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &credentialRequest{done: make(chan struct{}), cancel: cancel}
	cache.pending = f
	go func() {
		defer cancel()
		f.result, f.fault = cache.fetch(ctx, func() { f.started.Store(true) })
		cache.storeResult(f)
		close(f.done)
	}()
}

// storeResult keeps the credential of a run.
func (cache *credentialCache) storeResult(f *credentialRequest) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	cache.pending = nil
	if f.fault != nil {
		return
	}
	now := cache.clock.Now()
	cache.current, cache.renewAt = f.result, time.Time{}
	if expires := f.result.expires; !expires.IsZero() {
		cache.renewAt = expires.Add(-min(expires.Sub(now)/refreshPart, maxEarly))
	}
}

// forgetCredential drops a refused credential, unless another credential has replaced the credential already.
func (cache *credentialCache) forgetCredential(c *credential) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if cache.current == c {
		cache.current = nil
	}
}

// close ends a run under way.
func (cache *credentialCache) close() {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	cache.closed, cache.current = true, nil
	if cache.pending != nil {
		cache.pending.cancel()
	}
}
