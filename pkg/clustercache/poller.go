// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxPollInterval bounds the time between two lists of a place of a polled cluster, unless the configured interval is longer, or the fleet is
	// large: then the bound is clusterPollTime for each cluster, up to maxFleetPollInterval.
	maxPollInterval      = 5 * time.Minute
	clusterPollTime      = 600 * time.Millisecond
	maxFleetPollInterval = 15 * time.Minute
	// pollSpread is the part of a long interval by which lists may come early, so that the lists of many clusters do not coincide.
	pollSpread = 0.25
	// relistSpread bounds the time until each place of a cluster is listed that did not answer before.
	relistSpread = time.Minute
	// parallelPolls is the number of lists of a cluster at a time.
	parallelPolls = 4
)

// poller lists the places of a cluster that are not watched. The interval between two lists of a place grows with the time since the last
// change of the cluster: a place is listed again after as long as nothing has changed. Workloads, and Jobs until the Jobs have finished, are
// listed at the shortest interval.
type poller struct {
	// interval is the shortest interval.
	interval time.Duration
	// lists bounds the lists of all clusters.
	lists *ListLimit
	// wake ends the wait of the goroutine, which runs while there are places.
	wake chan struct{}

	mu      sync.Mutex
	running bool
	closed  bool
	places  []*polledPlace
	// changedAt is the time of the last change of the cluster, and requestedAt of the last call of requestLists.
	changedAt, requestedAt time.Time
}

// polledPlace is a place that the poller lists.
type polledPlace struct {
	// list lists the place. A positive pause is the time until the next attempt after a failure. isPolled is false when the poller has to
	// list the place no more.
	list func() (pause time.Duration, isPolled bool)
	// needsFrequentLists reports whether the status of the objects may change without a write of the manager.
	needsFrequentLists func() bool

	// listedAt is the time of the last list, pause the time until the next attempt after a failed list, and spread a random number
	// from 0 to 1 that the places of one batch share. isFrequent is the result of needsFrequentLists after the list.
	listedAt   time.Time
	pause      time.Duration
	spread     float64
	isFrequent bool
}

func newPoller(interval time.Duration, lists *ListLimit) *poller {
	return &poller{interval: interval, lists: lists, wake: make(chan struct{}, 1), changedAt: time.Now()}
}

// addPlace adds a place that was listed a moment ago.
func (p *poller) addPlace(place *polledPlace) {
	place.recordList(0, rand.Float64())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.places = append(p.places, place)
	if !p.running {
		p.running = true
		p.lists.addClusters(1)
		go p.run()
	}
	p.wakeUp()
}

// recordChange notes a change of the cluster: the lists come at the shortest interval again. A write of the manager counts as a change.
func (p *poller) recordChange() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changedAt = time.Now()
	p.wakeUp()
}

// requestLists lets each place be listed once within relistSpread. Frequent lists of many clusters that return at once could keep a busy manager
// from noticing the answers of clusters.
func (p *poller) requestLists() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requestedAt = time.Now()
	p.wakeUp()
}

// close ends the goroutine.
func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wakeUp()
}

func (p *poller) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *poller) run() {
	for {
		due, wait, isRunning := p.takeDue(time.Now())
		switch {
		case !isRunning:
			return
		case len(due) > 0:
			p.listPlaces(due)
		default:
			p.await(wait)
		}
	}
}

func (p *poller) await(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.wake:
	}
}

// takeDue returns the places to list now, or the time until a place has to be listed. The goroutine ends without places.
func (p *poller) takeDue(now time.Time) (due []*polledPlace, wait time.Duration, isRunning bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.places) == 0 {
		p.running, p.places = false, nil
		p.lists.addClusters(-1)
		return nil, 0, false
	}
	wait = maxPollInterval
	for _, place := range p.places {
		earliest, latest := p.listWindow(place)
		if !now.Before(earliest) {
			due = append(due, place)
		}
		wait = min(wait, latest.Sub(now))
	}
	if wait > 0 {
		return nil, wait, true // no list comes early alone
	}
	return due, 0, true
}

// listWindow returns the earliest and the latest time of the next list of a place. The caller holds the lock.
func (p *poller) listWindow(place *polledPlace) (earliest, latest time.Time) {
	between := func(start time.Time, shortest, longest time.Duration) (earliest, latest time.Time) {
		return start.Add(shortest), start.Add(shortest + time.Duration(place.spread*float64(longest-shortest)))
	}
	longest := p.interval + p.interval/10
	if place.pause > 0 {
		return between(place.listedAt, place.pause, place.pause)
	}
	earliest, latest = between(place.listedAt, p.interval, longest)
	if !place.isFrequent {
		quiet := min(place.listedAt.Sub(p.changedAt), p.lists.longestInterval())
		early := time.Duration((1 - pollSpread) * float64(quiet))
		earliest, latest = between(place.listedAt, max(p.interval, early), max(longest, quiet))
	}
	if place.listedAt.Before(p.requestedAt) {
		if from, until := between(p.requestedAt, p.interval, max(longest, relistSpread)); until.Before(latest) {
			return from, until
		}
	}
	return earliest, latest
}

// listPlaces lists places, and drops the places that the poller has to list no more.
func (p *poller) listPlaces(places []*polledPlace) {
	spread := rand.Float64()
	for some := range slices.Chunk(places, parallelPolls) {
		var lists sync.WaitGroup
		for _, place := range some {
			lists.Go(func() { p.listPlace(place, spread) })
		}
		lists.Wait()
	}
}

func (p *poller) listPlace(place *polledPlace, spread float64) {
	pause, isPolled := place.list()
	p.mu.Lock()
	defer p.mu.Unlock()
	place.recordList(pause, spread)
	if !isPolled {
		p.places = slices.DeleteFunc(p.places, func(other *polledPlace) bool { return other == place })
	}
}

func (p *polledPlace) recordList(pause time.Duration, spread float64) {
	p.listedAt, p.pause, p.spread, p.isFrequent = time.Now(), pause, spread, p.needsFrequentLists()
}

// writeTransport calls onWrite after each request that may change the cluster.
type writeTransport struct {
	next    http.RoundTripper
	onWrite func()
}

// RoundTrip implements http.RoundTripper.
func (t *writeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		defer t.onWrite()
	}
	return t.next.RoundTrip(req)
}
