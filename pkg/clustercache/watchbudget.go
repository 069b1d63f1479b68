// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
)

// Bounds of all watches of a cluster together: a burst, and a rate per second. An installation causes far fewer events and bytes.
const (
	burstBytes, bytesPerSecond   = 16 << 20, 256 << 10
	burstEvents, eventsPerSecond = 5000, 100
	// usualEvent is the size of usual events. maxLargeEvents is how far the largest events of all watches of a cluster may exceed
	// that size together: a client keeps a buffer for the largest event until the watch ends.
	usualEvent, maxLargeEvents = 32 << 10, 1 << 20
)

// errWatchCut ends a watch that exceeds the budget.
var errWatchCut = errors.New("the watch brings more than is taken")

// allowance is a token bucket.
type allowance struct {
	burst, perSecond float64
	used             float64
	at               time.Time
}

// useUp takes from the allowance, and reports whether the allowance sufficed.
func (a *allowance) useUp(n float64, now time.Time) bool {
	if !a.at.IsZero() {
		a.used = max(0, a.used-now.Sub(a.at).Seconds()*a.perSecond)
	}
	a.at = now
	a.used += n
	return a.used <= a.burst
}

// watchBudget bounds the watches of a cluster.
type watchBudget struct {
	clock clock.PassiveClock
	// onExceeded is called for each watch that is cut.
	onExceeded func(why error)

	mu            sync.Mutex
	bytes, events allowance
	large         int64
}

func newWatchBudget(clock clock.PassiveClock, exceeded func(error)) *watchBudget {
	return &watchBudget{
		clock: clock, onExceeded: exceeded,
		bytes:  allowance{burst: burstBytes, perSecond: bytesPerSecond},
		events: allowance{burst: burstEvents, perSecond: eventsPerSecond},
	}
}

// countEvents counts bytes and events of a watch; larger is the growth of the largest event beyond the usual size.
func (b *watchBudget) countEvents(bytes, events int, larger int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	b.large += larger
	switch {
	case !b.bytes.useUp(float64(bytes), now):
		return fmt.Errorf("its watches bring more than %d MiB at once and %d KiB per second after that", burstBytes>>20, bytesPerSecond>>10)
	case !b.events.useUp(float64(events), now):
		return fmt.Errorf("its watches bring more than %d events at once and %d per second after that", burstEvents, eventsPerSecond)
	case b.large > maxLargeEvents:
		return fmt.Errorf("its watches bring events that are larger than %d KiB", usualEvent>>10)
	}
	return nil
}

// releaseLarge returns the budget of a watch for large events.
func (b *watchBudget) releaseLarge(large int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.large -= large
}

// wrapTransport returns a transport that cuts watches beyond the budget.
func (b *watchBudget) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return &watchTransport{next: next, budget: b}
}

type watchTransport struct {
	next   http.RoundTripper
	budget *watchBudget
}

// RoundTrip implements http.RoundTripper.
func (t *watchTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || req.URL.Query().Get("watch") == "" || resp.StatusCode != http.StatusOK || isProtobuf(resp) {
		return resp, err
	}
	resp.Body = &watchBody{ReadCloser: resp.Body, budget: t.budget, scanner: boundedhttp.NewEventScanner(boundedhttp.EventLimits())}
	return resp, nil
}

// isProtobuf reports whether a response has the encoding that only the hub uses: a session accepts only JSON from other clusters.
// The hub is trusted, and watches of the hub are not counted.
func isProtobuf(resp *http.Response) bool {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && mediaType == runtime.ContentTypeProtobuf
}

// watchBody is the body of a watch, which ends when the budget is used up.
type watchBody struct {
	io.ReadCloser
	budget  *watchBudget
	scanner *boundedhttp.Scanner

	events int
	cut    bool

	// mu guards the fields below: a client may close a watch during a read.
	mu     sync.Mutex
	large  int64
	closed bool
}

// Read implements io.Reader.
func (w *watchBody) Read(p []byte) (int, error) {
	if w.cut {
		return 0, errWatchCut
	}
	n, err := w.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	why := w.scanner.Scan(p[:n])
	if limit, over := errors.AsType[*boundedhttp.LimitError](why); over {
		why = fmt.Errorf("an event of its watches %s", limit.What)
	} else {
		events := w.scanner.Frames - w.events
		w.events += events
		why = w.budget.countEvents(n, events, w.growLarge(max(0, w.scanner.Largest-usualEvent)))
	}
	if why != nil {
		w.cut = true
		w.budget.onExceeded(why)
		return 0, errWatchCut
	}
	return n, err
}

// growLarge records by how many bytes the largest event exceeds the usual size, and returns the growth. A closed watch never
// grows.
func (w *watchBody) growLarge(to int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0
	}
	growth := to - w.large
	w.large = to
	return growth
}

// Close implements io.Closer.
func (w *watchBody) Close() error {
	w.budget.releaseLarge(w.closeLarge())
	return w.ReadCloser.Close()
}

// closeLarge closes the count of large events and returns the share of the watch in the budget.
func (w *watchBody) closeLarge() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	large := w.large
	w.large, w.closed = 0, true
	return large
}
