// Copyright Contributors to the Open Cluster Management project

package render

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"
)

// defaultCacheSize is more than the clusters of most hubs: a CR may use a value that each has for itself. Bundles that
// differ in little share the rest.
const defaultCacheSize = 4096

// key is the identity of a bundle: what it is rendered from.
type key struct {
	content   [sha256.Size]byte
	cluster   [sha256.Size]byte
	remote    [sha256.Size]byte
	version   string
	namespace string
	options   Options
}

// entry is a bundle, or why there is none. done is closed when it is known.
type entry struct {
	key    key
	done   chan struct{}
	bundle *Bundle
	err    error
}

// bundles keeps the bundles that were used last. A bundle is rendered by the first who asks for it; others wait.
type bundles struct {
	mu    sync.Mutex
	size  int
	byKey map[key]*list.Element
	used  *list.List // of *entry, last used first

	hits, misses uint64
}

func newBundles(size int) *bundles {
	if size <= 0 {
		size = defaultCacheSize
	}
	return &bundles{size: size, byKey: map[key]*list.Element{}, used: list.New()}
}

// get is the bundle of k. Failures are kept too: the same content fails in the same way.
func (b *bundles) get(ctx context.Context, k key, render func() (*Bundle, error)) (*Bundle, error) {
	e, mine := b.claim(k)
	if mine {
		defer close(e.done)
		e.bundle, e.err = render()
		return e.bundle, e.err
	}
	select {
	case <-e.done:
		return e.bundle, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *bundles) claim(k key) (e *entry, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, found := b.byKey[k]; found {
		b.hits++
		b.used.MoveToFront(at)
		return at.Value.(*entry), false
	}
	b.misses++
	e = &entry{key: k, done: make(chan struct{})}
	b.byKey[k] = b.used.PushFront(e)
	for b.used.Len() > b.size {
		oldest := b.used.Back()
		b.used.Remove(oldest)
		delete(b.byKey, oldest.Value.(*entry).key)
	}
	return e, true
}

// CacheStats count what Render found and what it rendered.
type CacheStats struct {
	Hits, Misses uint64
	Bundles      int
}

func (b *bundles) stats() CacheStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return CacheStats{Hits: b.hits, Misses: b.misses, Bundles: b.used.Len()}
}
