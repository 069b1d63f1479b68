// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// arrivals are the times at which what is waited for was first seen, by its name.
type arrivals struct {
	what  string
	want  int
	start time.Time

	mu  sync.Mutex
	at  map[string]time.Duration
	all chan struct{}
}

// expect begins to wait for that many names.
func expect(what string, want int) *arrivals {
	return &arrivals{what: what, want: want, start: time.Now(), at: map[string]time.Duration{}, all: make(chan struct{})}
}

func (a *arrivals) see(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.at[name]; ok {
		return
	}
	a.at[name] = time.Since(a.start)
	if len(a.at) == a.want {
		close(a.all)
	}
}

// wait returns when the last name came, with the time until then. An error says that no name came for stallLimit.
func (a *arrivals) wait(ctx context.Context) (time.Duration, error) {
	for {
		select {
		case <-ctx.Done():
		case <-a.all:
		case <-time.After(progressInterval):
			_, left := a.latest()
			progress("%s: %d of %d", a.what, a.want-left, a.want)
		}
		last, left := a.latest()
		switch stalled := time.Since(a.start) - last; {
		case left == 0:
			return last, nil
		case ctx.Err() != nil:
			return last, fmt.Errorf("%s: only %d of %d: %w", a.what, a.want-left, a.want, ctx.Err())
		case stalled > stallLimit:
			return last, fmt.Errorf("%s: only %d of %d, and no other for %s", a.what, a.want-left, a.want, stalled.Round(time.Second))
		}
	}
}

// latest returns the time until the last name came, and how many names are left.
func (a *arrivals) latest() (last time.Duration, left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.at {
		last = max(last, d)
	}
	return last, a.want - len(a.at)
}

const (
	// progressInterval is the time between two lines about the names that have come.
	progressInterval = time.Minute
	// stallLimit is how long no name comes before the benchmark gives up.
	stallLimit = 10 * time.Minute
)

// patience is how long a step may take on a thousand clusters.
const patience = time.Hour

// poll is how often a state is looked at that nothing is measured by.
const poll = 500 * time.Millisecond
