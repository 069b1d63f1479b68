// Copyright Contributors to the Open Cluster Management project

package boundedhttp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Body is the body of a response within its limits.
type Body struct {
	inner   io.ReadCloser
	limits  Limits
	scanner *Scanner
	claim   *claim
	// ctx is the context of the request. cancel ends the request, and so a Read that gets no data.
	ctx     context.Context //nolint:containedctx // a body lives as long as the request
	cancel  context.CancelFunc
	timer   *time.Timer
	refused func(*LimitError)
	done    func()
	closed  sync.Once

	mu    sync.Mutex
	wrong *LimitError
}

// BodyOptions are the options of NewBody.
type BodyOptions struct {
	Limits Limits
	// Share is the share of the Budget of the cluster.
	Share *Share
	// Close calls Refused when the response exceeds a limit, and Closed always, once each.
	Refused func(*LimitError)
	Closed  func()
}

// NewBody returns a body with limits. The context is that of the request, and cancel ends the request.
func NewBody(ctx context.Context, cancel context.CancelFunc, body io.ReadCloser, options BodyOptions) *Body {
	b := &Body{
		inner: body, limits: options.Limits, scanner: NewScanner(options.Limits), ctx: ctx, cancel: cancel,
		refused: options.Refused, done: options.Closed,
	}
	b.claim = &claim{share: options.Share, evict: b.refuseRest}
	b.timer = time.AfterFunc(options.Limits.Time, func() { b.refuseRest(b.claim.timeoutError(options.Limits)) })
	return b
}

// Read implements io.Reader. An error of a limit is a *LimitError.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if limit := b.countData(p[:n]); limit != nil {
		b.refuseRest(limit)
	}
	if limit := b.exceededLimit(); limit != nil {
		return 0, limit
	}
	if errors.Is(err, io.EOF) {
		b.timer.Stop() // the reader may close the body later
	}
	if n > 0 && err == nil {
		err = b.ctx.Err()
	}
	return n, err
}

// countData counts the data of a response, and claims memory for the data.
func (b *Body) countData(data []byte) *LimitError {
	if len(data) == 0 || b.exceededLimit() != nil {
		return nil //nolint:nilerr // the first exceeded limit is the one to report
	}
	err := b.scanner.Scan(data)
	if err == nil {
		if need := memoryOf(b.scanner.bytes, b.scanner.values); need > freeMemory {
			err = b.claim.claimMemory(b.ctx, need)
		}
	}
	limit, _ := errors.AsType[*LimitError](err)
	return limit
}

// refuseRest refuses the rest of the response.
func (b *Body) refuseRest(limit *LimitError) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrong == nil {
		b.wrong = limit
		b.cancel()
	}
}

func (b *Body) exceededLimit() *LimitError {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wrong
}

// Close implements io.Closer.
func (b *Body) Close() error {
	err := b.inner.Close()
	b.closed.Do(func() {
		b.timer.Stop()
		b.cancel()
		if l, held := b.ctx.Value(leaseKey{}).(*lease); held && b.exceededLimit() == nil {
			l.takeClaim(b.claim)
		} else {
			b.claim.releaseMemory()
		}
		if limit := b.exceededLimit(); limit != nil {
			b.refused(limit)
		}
		b.done()
	})
	return err
}
