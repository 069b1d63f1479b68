// Copyright Contributors to the Open Cluster Management project

package clustercache

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
	// DefaultPollInterval is the default of the shortest time between two lists of a polled place.
	DefaultPollInterval = 10 * time.Second
	// MinPollInterval is the shortest configurable interval.
	MinPollInterval = time.Second

	// maxWatchFailures is the number of consecutive failed watches, while lists succeed, after which the cluster is polled.
	maxWatchFailures = 3
	// minWatchRetry is the time after which a polled cluster is watched again.
	minWatchRetry = 10 * time.Minute
	// maxWatchRetry bounds that time after watches were cut. Each cut doubles the time.
	maxWatchRetry = 160 * time.Minute
)

// errSilentWatch is the failure of a watch that begins and then delivers no event.
var errSilentWatch = errors.New("the watch delivers no changes")

// WatchLimit bounds the number of clusters that are watched as a whole. A watched cluster keeps its slot; the first cluster that
// requests a free slot gets the slot. A nil WatchLimit is no bound.
type WatchLimit struct {
	mu    sync.Mutex
	free  int
	taken map[*watchPolicy]bool
}

// NewWatchLimit returns a limit with slots for a number of clusters.
func NewWatchLimit(clusters int) *WatchLimit {
	return &WatchLimit{free: clusters, taken: map[*watchPolicy]bool{}}
}

func (l *WatchLimit) acquire(p *watchPolicy) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[p] {
		return true
	}
	if l.free <= 0 {
		return false
	}
	l.free--
	l.taken[p] = true
	return true
}

func (l *WatchLimit) release(p *watchPolicy) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[p] {
		delete(l.taken, p)
		l.free++
	}
}

// watchPolicy decides which views of a cluster watch: all views with a slot of the WatchLimit, and without a slot the views of
// workloads. All views poll while the cluster refuses watches.
type watchPolicy struct {
	interval time.Duration
	limit    *WatchLimit
	log      logr.Logger
	// startSlot is held by the watch that begins.
	startSlot chan struct{}
	// liveWatches counts the watches that have begun and not ended. lostAt is when the last watch failed, and connectionLostAt when the last watch
	// failed because of its connection.
	liveWatches              atomic.Int32
	lostAt, connectionLostAt atomic.Pointer[time.Time]
	// restorations counts how often the resource versions of the cluster went back, as after a restore from a backup.
	restorations atomic.Int32

	mu sync.Mutex
	// ended is closed when the policy changes from watching to polling; nil while no view watches.
	ended chan struct{}
	// hasSlot reports that the cluster has a slot of the limit.
	hasSlot bool
	// failures counts consecutive failed watches.
	failures int
	// noEventYet reports that no watch has delivered an event since watching began.
	noEventYet bool
	// cutCause is why the watches were cut, cuts counts consecutive cuts, and lastCutAt is the time of the last cut.
	cutCause  error
	cuts      int
	lastCutAt time.Time
	// retryAt is when a refused watch may be tried again, or zero.
	retryAt time.Time
	closed  bool
}

// acquireWatch reports whether the place may be watched. ended is closed as soon as the place is polled instead.
func (p *watchPolicy) acquireWatch(at Place) (ended <-chan struct{}, watched bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.ended == nil && time.Now().Before(p.retryAt) {
		return nil, false
	}
	p.hasSlot = p.limit.acquire(p)
	if !p.hasSlot && !isWorkload(at.GroupVersionResource) {
		return nil, false
	}
	if p.ended == nil {
		p.ended, p.noEventYet = make(chan struct{}), true
	}
	return p.ended, true
}

// watches reports whether the policy watches a place.
func (p *watchPolicy) watches(at Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended != nil && (p.hasSlot || isWorkload(at.GroupVersionResource))
}

// recordFailure records a watch that failed while lists succeed.
func (p *watchPolicy) recordFailure(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if p.ended == nil || p.failures < maxWatchFailures && !isWatchRefused(why) {
		return
	}
	if p.retryAt.IsZero() { // later attempts log nothing
		p.log.Info("watching is refused; listing instead", "interval", p.interval, "why", why.Error())
	}
	p.retryAt = time.Now().Add(wait.Jitter(minWatchRetry, 0.2))
	p.endWatches()
}

// cutWatches ends all watches of a cluster whose watches exceed a bound.
func (p *watchPolicy) cutWatches(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		return
	}
	if time.Since(p.lastCutAt) > 2*maxWatchRetry {
		p.cuts = 0
	}
	pause := maxWatchRetry
	if p.cuts < 4 { // a fifth cut would exceed maxWatchRetry
		pause = minWatchRetry << p.cuts
	}
	p.log.Info("watches are cut; listing instead", "interval", p.interval, "why", why.Error(), "until", pause)
	p.cuts++
	p.cutCause, p.lastCutAt, p.retryAt = why, time.Now(), time.Now().Add(wait.Jitter(pause, 0.2))
	p.endWatches()
}

// watchProblem returns why the watches of the cluster were cut; empty when watches were not cut.
func (p *watchPolicy) watchProblem() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutCause == nil {
		return ""
	}
	return p.cutCause.Error()
}

// isWatchRefused reports whether the next watch would fail with the same error.
func isWatchRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || errors.Is(err, errSilentWatch)
}

// recordEvent records the first event of a watch, and reports whether the event ends the problem that watchProblem describes.
func (p *watchPolicy) recordEvent() (endsProblem bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	endsProblem = p.cutCause != nil
	p.failures, p.noEventYet, p.cutCause = 0, false, nil
	if !p.retryAt.IsZero() {
		p.log.Info("watching works again")
		p.retryAt = time.Time{}
	}
	return endsProblem
}

// firstCheckInterval returns the time after which a new, silent watch is checked.
func (p *watchPolicy) firstCheckInterval() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noEventYet {
		return p.interval
	}
	return maxCheckInterval
}

// close ends all watches and returns the slot of the cluster for good.
func (p *watchPolicy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.endWatches()
}

// endWatches changes to polling. The caller holds the lock.
func (p *watchPolicy) endWatches() {
	if p.ended == nil {
		return
	}
	close(p.ended)
	p.ended, p.failures, p.hasSlot = nil, 0, false
	p.limit.release(p)
}
