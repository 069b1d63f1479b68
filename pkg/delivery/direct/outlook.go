// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// DefaultPollInterval is how often what is not watched is listed, unless something else is asked for.
	DefaultPollInterval = 10 * time.Second
	// MinPollInterval is the shortest that may be asked for.
	MinPollInterval = time.Second

	// maxWatchFailures is how many watches may fail in a row, while lists work, before the cluster is polled.
	maxWatchFailures = 3
	// watchRetry is after how long watching is tried again.
	watchRetry = 10 * time.Minute
)

// errSilentWatch is for a watch that begins and then brings nothing.
var errSilentWatch = errors.New("it does not bring what changes")

// WatchLimit is how many clusters are watched. Who is watched stays so; a place that is free is for who asks first. A nil
// WatchLimit has places for all.
type WatchLimit struct {
	mu    sync.Mutex
	free  int
	taken map[*outlook]bool
}

// NewWatchLimit has places for a number of clusters.
func NewWatchLimit(clusters int) *WatchLimit {
	return &WatchLimit{free: clusters, taken: map[*outlook]bool{}}
}

func (l *WatchLimit) acquire(o *outlook) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[o] {
		return true
	}
	if l.free <= 0 {
		return false
	}
	l.free--
	l.taken[o] = true
	return true
}

func (l *WatchLimit) release(o *outlook) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[o] {
		delete(l.taken, o)
		l.free++
	}
}

// outlook decides whether a cluster is watched or polled, as a whole.
type outlook struct {
	interval time.Duration
	limit    *WatchLimit
	log      logr.Logger
	// turn is held by the watch that begins.
	turn chan struct{}
	// live are the watches that have begun and not ended, and lost is when one failed last.
	live atomic.Int32
	lost atomic.Pointer[time.Time]
	// restored is how often the cluster's versions went back, as those of a cluster do that is restored from a backup.
	restored atomic.Int32

	mu sync.Mutex
	// ended is closed when the cluster is not watched any more; nil while it is polled.
	ended chan struct{}
	// failures are those in a row.
	failures int
	// mute tells that no watch has brought anything yet.
	mute bool
	// again is when watching may be tried again after it was refused; zero when it was not.
	again  time.Time
	closed bool
}

// watched tells whether the cluster is watched; ended is closed when it is not any more.
func (o *outlook) watched() (ended <-chan struct{}, watched bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ended != nil:
		return o.ended, true
	case o.closed, time.Now().Before(o.again), !o.limit.acquire(o):
		return nil, false
	}
	o.ended, o.mute = make(chan struct{}), true
	return o.ended, true
}

// failed notes that a watch has failed while lists work.
func (o *outlook) failed(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures++
	if o.ended == nil || o.failures < maxWatchFailures && !refusesWatch(why) {
		return
	}
	if o.again.IsZero() { // it is no news after a further attempt
		o.log.Info("watching is refused; listing instead", "interval", o.interval, "why", why.Error())
	}
	o.again = time.Now().Add(wait.Jitter(watchRetry, 0.2))
	o.end()
}

// refusesWatch tells that an error will be the same the next time.
func refusesWatch(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || errors.Is(err, errSilentWatch)
}

// heard notes that a watch has brought something.
func (o *outlook) heard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures, o.mute = 0, false
	if !o.again.IsZero() {
		o.log.Info("watching works again")
		o.again = time.Time{}
	}
}

// firstCheck is after how long a new watch that is silent is looked after.
func (o *outlook) firstCheck() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mute {
		return o.interval
	}
	return longestCheck
}

// close gives the place to another cluster.
func (o *outlook) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.end()
}

// end needs the lock.
func (o *outlook) end() {
	if o.ended == nil {
		return
	}
	close(o.ended)
	o.ended, o.failures = nil, 0
	o.limit.release(o)
}
