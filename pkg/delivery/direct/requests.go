// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
)

const (
	// inParallel is how many requests a pass has under way at a time.
	inParallel = 10
	// maxUnavailable is how many requests without a response, one after another, end a batch: the cluster is unavailable, and not
	// one request lost.
	maxUnavailable = 3
)

// requestBatch runs requests for objects, several at a time. The batch continues after a lost request, so that a pass over an unreliable
// connection makes progress, and ends early when the cluster is unavailable.
type requestBatch struct {
	group *errgroup.Group
	ctx   context.Context //nolint:containedctx // the context of the group

	mu sync.Mutex
	// failed counts the requests without a response since the last response.
	failed int
	// first is the error of the first request without a response.
	first error
}

func newRequestBatch(ctx context.Context) *requestBatch {
	b := &requestBatch{}
	b.group, b.ctx = errgroup.WithContext(ctx)
	b.group.SetLimit(inParallel)
	return b
}

// run calls the request when fewer than inParallel requests are under way. A request that begins after the end of the batch fails with
// the error of the context.
func (b *requestBatch) run(request func(ctx context.Context) error) {
	b.group.Go(func() error {
		err := request(b.ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		if !clustercache.IsUnavailable(err) {
			b.failed = 0
			return nil
		}
		if b.first == nil {
			b.first = err
		}
		if b.failed++; b.failed < maxUnavailable {
			return nil
		}
		return b.first
	})
}

// wait waits for the end of all requests. An error means that a request had no response.
func (b *requestBatch) wait() error {
	_ = b.group.Wait() // the error is the first one
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first
}
