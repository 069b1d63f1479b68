// Copyright Contributors to the Open Cluster Management project

package render

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// defaultCacheSize exceeds the clusters of most hubs: a CR may use a value that differs for every cluster. Similar bundles
// share most objects.
const defaultCacheSize = 4096

// key is the identity of a bundle: everything that a rendering depends on.
type key struct {
	content   [sha256.Size]byte
	cluster   [sha256.Size]byte
	remote    [sha256.Size]byte
	version   string
	namespace string
	options   Options
	// verification is the mode of the verification.
	verification string
	// restricted reports whether the content was checked for a namespace without trust.
	restricted bool
	// baseline says that the bundle is what others are compared with. Such a bundle is never queued: see obtainBaseline.
	baseline bool
}

// entry is a bundle, or the error of the rendering. done is closed when either is known.
type entry struct {
	key    key
	owner  *namespaceShare
	at     *list.Element // in the owner's entries
	cost   int
	done   chan struct{}
	bundle *Bundle
	err    error
}

// namespaceShare is the part of the cache for the resources of one namespace.
type namespaceShare struct {
	namespace string
	cost      int
	used      *list.List // of *entry, last used first
	// queued counts the entries that wait for their turn, by the input that the entries hold in memory.
	queued map[queuedInput]int
}

// queuedInput identifies the spec and the documents that a queued rendering holds in memory. Renderings for the values of many clusters hold the
// same input.
type queuedInput struct{ content, remote [sha256.Size]byte }

func (k *key) queuedInput() queuedInput { return queuedInput{k.content, k.remote} }

// bundles keeps the bundles that were used last. The first request of a bundle starts the rendering; all callers wait, and
// a caller that stops waiting stops no rendering. When the cache is full, the namespace with the most expensive entries
// loses a bundle, so that a tenant with many resources evicts bundles of the same tenant.
type bundles struct {
	queue  *queue
	budget time.Duration

	mu             sync.Mutex
	size, capacity int // settled entries, and their bytes
	settled, cost  int
	byKey          map[key]*entry
	shares         map[string]*namespaceShare

	hits, misses uint64
}

func newBundles(size int) *bundles {
	if size <= 0 {
		size = defaultCacheSize
	}
	return &bundles{
		queue: newQueue(), budget: maxRenderTime, size: size, capacity: maxCacheBytes,
		byKey: map[key]*entry{}, shares: map[string]*namespaceShare{},
	}
}

// rendering makes a bundle. The rendering calls begin when it holds the lock around the Knative Operator's functions: the
// time limit counts from then on.
type rendering func(ctx context.Context, begin func()) (*Bundle, error)

// startRendering returns the entry of k for a resource of the namespace. Errors of the content are kept, too: equal content fails equally. While
// maxQueuedInputs other inputs of the namespace wait, the entry has the error of a pending bundle, and the cache has no entry.
func (b *bundles) startRendering(namespace string, k key, render rendering) *entry {
	if !b.admitInput(namespace, k) {
		refused := &entry{done: make(chan struct{}), err: newError(api.FaultRenderPending, "%d other resources of namespace %q wait to be rendered", maxQueuedInputs, namespace)}
		close(refused.done)
		return refused
	}
	e, mine := b.claimEntry(namespace, k)
	if mine {
		b.countQueued(e, 1)
		b.queue.submitTask(namespace, func() {
			b.countQueued(e, -1)
			b.runRendering(e, render)
		})
	}
	return e
}

// admitInput reports whether the rendering of k is known, or may wait in the queue: a tenant can change specs faster than the manager renders the
// specs, and each waiting rendering holds its input in memory.
func (b *bundles) admitInput(namespace string, k key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shares[namespace]
	return s == nil || b.byKey[k] != nil || s.queued[k.queuedInput()] > 0 || len(s.queued) < maxQueuedInputs
}

func (b *bundles) countQueued(e *entry, change int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	input := e.key.queuedInput()
	if e.owner.queued[input] += change; e.owner.queued[input] == 0 {
		delete(e.owner.queued, input)
	}
}

// obtainBaseline returns the bundle of a baseline to a rendering that compares with the baseline. The first rendering that
// asks renders the baseline in its own place of the queue: a rendering that waited for another place could wait for itself.
func (b *bundles) obtainBaseline(ctx context.Context, namespace string, k key, render rendering) (*Bundle, error) {
	k.baseline = true
	e, mine := b.claimEntry(namespace, k)
	if mine {
		// Other renderings use the result: a rendering that runs out of time is no reason to fail the others.
		bundle, err := renderSafely(context.WithoutCancel(ctx), render, nil)
		b.settleEntry(e, bundle, err)
	}
	return e.awaitBundle(ctx)
}

// awaitBundle returns the result of the entry, or the cause of a context that ends before.
func (e *entry) awaitBundle(ctx context.Context) (*Bundle, error) {
	if e.isSettled() {
		return e.bundle, e.err
	}
	select {
	case <-e.done:
		return e.bundle, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// runRendering renders a bundle. After the time limit the callers get an error at once, and the rendering keeps its place
// in the queue until the rendering has noticed, so that abandoned renderings cannot pile up.
func (b *bundles) runRendering(e *entry, render rendering) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	timeout := newError(api.ReasonRenderTimeout, "rendering was given up after %s: use fewer and smaller spec.patches, spec.config and manifests; "+
		"the resource is rendered again when it changes", b.budget)
	timer := time.AfterFunc(b.budget, func() {
		cancel(timeout)
		b.settleEntry(e, nil, timeout)
	})
	defer timer.Stop()
	bundle, err := renderSafely(ctx, render, func() { timer.Reset(b.budget) })
	b.settleEntry(e, bundle, err)
}

// renderSafely turns a panic into an error: the next caller would otherwise get a bundle that is nil.
func renderSafely(ctx context.Context, render rendering, begin func()) (bundle *Bundle, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			bundle, err = nil, newError(api.ReasonRenderFailed, "rendering failed on input that it does not expect (%v): "+
				"check the part of the spec that was changed last", cause)
		}
	}()
	return render(ctx, begin)
}

func (b *bundles) claimEntry(namespace string, k key) (e *entry, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, found := b.byKey[k]; found {
		b.hits++
		e.owner.used.MoveToFront(e.at)
		return e, false
	}
	b.misses++
	s := b.shares[namespace]
	if s == nil {
		s = &namespaceShare{namespace: namespace, used: list.New(), queued: map[queuedInput]int{}}
		b.shares[namespace] = s
	}
	e = &entry{key: k, owner: s, done: make(chan struct{})}
	e.at = s.used.PushFront(e)
	b.byKey[k] = e
	return e, true
}

// settleEntry records the result of an entry. Only the first call counts.
func (b *bundles) settleEntry(e *entry, bundle *Bundle, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.isSettled() {
		return
	}
	e.bundle, e.err = bundle, err
	close(e.done)
	b.settled++
	e.owner.used.MoveToFront(e.at) // the caller asks again soon
	b.chargeEntry(e, entryBytes)
	if bundle != nil {
		b.chargeEntry(e, bundle.unshared)
	}
	if isTransient(err) {
		b.removeEntry(e)
	}
	b.evictEntries()
}

// isTransient reports whether an error is one of the machine, such as a full disk: the next request renders again. Other errors follow from the
// content.
func isTransient(err error) bool {
	var file *fs.PathError
	var system syscall.Errno
	return errors.As(err, &file) || errors.As(err, &system)
}

func (e *entry) isSettled() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func (b *bundles) chargeEntry(e *entry, cost int) {
	e.cost += cost
	e.owner.cost += cost
	b.cost += cost
}

// evictEntries removes settled entries until these are within the bounds. An entry in rendering stays, because callers wait for the bundle, and
// does not count: with a queue that is longer than the cache, each bundle would be gone before its caller asks again.
func (b *bundles) evictEntries() {
	for b.settled > b.size || b.cost > b.capacity {
		victim := b.findVictim()
		if victim == nil {
			return
		}
		b.removeEntry(victim)
	}
}

// removeEntry removes a settled entry.
func (b *bundles) removeEntry(e *entry) {
	b.settled--
	b.chargeEntry(e, -e.cost)
	e.owner.used.Remove(e.at)
	delete(b.byKey, e.key)
	if e.owner.used.Len() == 0 {
		delete(b.shares, e.owner.namespace)
	}
}

// findVictim returns the least recently used entry of the namespace with the most expensive entries.
func (b *bundles) findVictim() *entry {
	var out *entry
	for _, s := range b.shares {
		if out != nil && (s.cost < out.owner.cost || s.cost == out.owner.cost && s.namespace > out.owner.namespace) {
			continue
		}
		if oldest := s.oldestEntry(); oldest != nil {
			out = oldest
		}
	}
	return out
}

func (s *namespaceShare) oldestEntry() *entry {
	for at := s.used.Back(); at != nil; at = at.Prev() {
		if e, ok := at.Value.(*entry); ok && e.isSettled() {
			return e
		}
	}
	return nil
}

// CacheStats counts the requests that the cache answered and the renderings.
type CacheStats struct {
	Hits, Misses uint64
	Bundles      int
}

func (b *bundles) readStats() CacheStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return CacheStats{Hits: b.hits, Misses: b.misses, Bundles: len(b.byKey)}
}
