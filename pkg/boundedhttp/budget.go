// Copyright Contributors to the Open Cluster Management project

package boundedhttp

import (
	"context"
	"sync"
)

const (
	// DefaultMemory is the memory of the responses of all clusters.
	DefaultMemory = 128 << 20
	// freeMemory is the memory of each response that needs no claim.
	freeMemory = 256 << 10
	// claimStep is how much memory a response claims at a time. Nearly all responses that need a claim need a single step.
	claimStep = 1 << 20
	// sureMemory is the memory of a response that is never evicted. Only responses without memory wait, so that responses never
	// wait for each other.
	sureMemory = claimStep
	// shares is how many clusters can use up the Budget together.
	shares = 4
)

// memoryOf estimates the memory of a response: the bytes are read and decoded, and the values become objects.
func memoryOf(bytes int64, values int) int64 { return 2*bytes + 200*int64(values) }

// Budget is the memory that the responses of all clusters share.
type Budget struct {
	mu     sync.Mutex
	total  int64
	held   int64
	claims map[*claim]bool
	// released is closed when memory comes back, and replaced.
	released chan struct{}
}

// NewBudget returns a Budget of a number of bytes.
func NewBudget(total int64) *Budget {
	return &Budget{total: total, claims: map[*claim]bool{}, released: make(chan struct{})}
}

// Share is the part of a Budget that one cluster may use.
type Share struct {
	budget *Budget
	held   int64
}

// Share returns the share of a further cluster.
func (b *Budget) Share() *Share { return &Share{budget: b} }

// claim is the memory of one response.
type claim struct {
	share *Share
	held  int64
	// read reports that the response is complete and being decoded. releaseMemory returns the memory after decoding.
	read bool
	// awaitsOthers reports that the claim waits for memory of other clusters.
	awaitsOthers bool
	// evict ends a response that is evicted for other responses. The caller holds the lock.
	evict func(*LimitError)
}

// claimMemory claims memory until the response has enough. A response without memory waits for memory of other responses. When
// memory is short, the largest response is evicted. The error is a *LimitError if this response is the largest, or the error of
// the context.
func (c *claim) claimMemory(ctx context.Context, need int64) error {
	for need -= freeMemory; ; {
		wait, err := c.tryClaim(need)
		if wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryClaim claims the missing memory, or returns a channel to wait for.
func (c *claim) tryClaim(need int64) (wait <-chan struct{}, err error) {
	b := c.share.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	c.awaitsOthers = false
	for c.held < need {
		inShare := c.share.held+claimStep > b.total/shares
		if !inShare && b.held+claimStep <= b.total {
			b.claims[c] = true
			c.addMemory(claimStep)
			continue
		}
		largest := b.largestClaim(c, inShare)
		switch largest {
		case c:
			return nil, errShortMemory(inShare)
		case nil:
			c.awaitsOthers = !inShare
			return b.released, nil
		}
		largest.evict(errShortMemory(inShare))
		largest.dropMemory()
	}
	return nil, nil
}

// largestClaim returns the claim of the largest response of a share, or of all shares, including the claim that asks for more.
// The result is nil when no response is large. The caller holds the lock.
func (b *Budget) largestClaim(asks *claim, inShare bool) *claim {
	var out *claim
	size := int64(sureMemory)
	if asks.held+claimStep > size {
		out, size = asks, asks.held+claimStep
	}
	for c := range b.claims {
		if !c.read && c.held > size && (!inShare || c.share == asks.share) {
			out, size = c, c.held
		}
	}
	return out
}

// errShortMemory returns the error of a response for which no memory is left: in the share of its cluster, whose own responses have taken the share,
// or in the whole Budget.
func errShortMemory(inShare bool) *LimitError {
	if inShare {
		return newLimitError("is larger than the memory that is left for the answers of one cluster")
	}
	limit := newLimitError("is larger than the memory that is left for the answers of all clusters")
	limit.ShortMemory = true
	return limit
}

// timeoutError returns the error of a response that is not complete in time.
func (c *claim) timeoutError(limits Limits) *LimitError {
	c.share.budget.mu.Lock()
	defer c.share.budget.mu.Unlock()
	if c.awaitsOthers {
		return errShortMemory(false)
	}
	return newLimitError("is not complete after %s", limits.Time)
}

// addMemory needs the lock.
func (c *claim) addMemory(n int64) {
	c.held += n
	c.share.held += n
	c.share.budget.held += n
}

// dropMemory needs the lock.
func (c *claim) dropMemory() {
	b := c.share.budget
	c.addMemory(-c.held)
	delete(b.claims, c)
	close(b.released)
	b.released = make(chan struct{})
}

// markRead records that the response was read.
func (c *claim) markRead() {
	c.share.budget.mu.Lock()
	defer c.share.budget.mu.Unlock()
	c.read = true
}

// releaseMemory gives the memory back.
func (c *claim) releaseMemory() {
	c.share.budget.mu.Lock()
	defer c.share.budget.mu.Unlock()
	if c.held > 0 {
		c.dropMemory()
	}
}

// lease collects the claims of responses until the responses are decoded.
type lease struct {
	mu     sync.Mutex
	claims []*claim
	ended  bool
}

type leaseKey struct{}

// Hold keeps the memory that responses to requests with the returned context have claimed until release is called: clients
// decode responses after the bodies are closed.
func Hold(ctx context.Context) (held context.Context, release func()) {
	l := &lease{}
	return context.WithValue(ctx, leaseKey{}, l), l.releaseClaims
}

func (l *lease) takeClaim(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		c.releaseMemory()
		return
	}
	c.markRead()
	l.claims = append(l.claims, c)
}

func (l *lease) releaseClaims() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, c := range l.claims {
		c.releaseMemory()
	}
	l.claims = nil
}
