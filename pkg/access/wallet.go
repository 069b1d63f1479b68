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
	// A credential is renewed when a tenth of its time is left, but not earlier than needed.
	refreshPart = 10
	maxEarly    = time.Minute
	// renewPause is between attempts to renew a credential that is still good.
	renewPause = 10 * time.Second
)

// wallet holds the credential of a connection. The plugin runs once for all who wait, and goes on when they give up.
type wallet struct {
	// obtain runs the plugin, and calls started when it does.
	obtain func(ctx context.Context, started func()) (*credential, *fault)
	clock  clock.PassiveClock

	mu      sync.Mutex
	current *credential
	// renewAt is when to replace the current one while it is still good; zero is never.
	renewAt time.Time
	flight  *flight
	closed  bool
}

// flight is one run of the plugin. The result is there when done is closed.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	started atomic.Bool
	result  *credential
	wrong   *fault
}

// get is a credential that has not expired. The error is a *fault, or that of the context when the plugin's turn has not
// come.
func (w *wallet) get(ctx context.Context, r *recipe) (*credential, error) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, closed()
	}
	now := w.clock.Now()
	if c := w.current; c != nil && (c.expires.IsZero() || now.Before(c.expires)) {
		if w.flight == nil && !w.renewAt.IsZero() && !now.Before(w.renewAt) {
			w.renewAt = now.Add(renewPause)
			w.start(ctx)
		}
		w.mu.Unlock()
		return c, nil
	}
	if w.flight == nil {
		w.start(ctx)
	}
	f := w.flight
	w.mu.Unlock()

	select {
	case <-f.done:
		if f.wrong != nil {
			return nil, f.wrong
		}
		return f.result, nil
	case <-ctx.Done():
		if f.started.Load() && ctx.Err() == context.DeadlineExceeded {
			return nil, providerFailed("see what it waits for; run it by hand with the same arguments",
				"%s gave no credential in time", r.plugin()).because(ctx.Err())
		}
		return nil, ctx.Err()
	}
}

// start runs the plugin. The caller holds the lock.
func (w *wallet) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), cancel: cancel}
	w.flight = f
	go func() {
		defer cancel()
		f.result, f.wrong = w.obtain(ctx, func() { f.started.Store(true) })
		w.land(f)
		close(f.done)
	}()
}

// land keeps what a flight brought.
func (w *wallet) land(f *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flight = nil
	if f.wrong != nil {
		return
	}
	now := w.clock.Now()
	w.current, w.renewAt = f.result, time.Time{}
	if expires := f.result.expires; !expires.IsZero() {
		w.renewAt = expires.Add(-min(expires.Sub(now)/refreshPart, maxEarly))
	}
}

// drop forgets a credential that was refused, unless another took its place already.
func (w *wallet) drop(c *credential) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == c {
		w.current = nil
	}
}

// close ends a run under way.
func (w *wallet) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.current = true, nil
	if w.flight != nil {
		w.flight.cancel()
	}
}
