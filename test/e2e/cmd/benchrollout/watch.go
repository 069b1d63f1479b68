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

// wait returns when the last one came.
func (a *arrivals) wait(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-a.all:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var last time.Duration
	for _, d := range a.at {
		last = max(last, d)
	}
	if len(a.at) < a.want {
		return last, fmt.Errorf("%s: only %d of %d: %w", a.what, len(a.at), a.want, ctx.Err())
	}
	return last, nil
}

// patience is how long a step may take on a thousand clusters.
const patience = time.Hour

// poll is how often a state is looked at that nothing is measured by.
const poll = 500 * time.Millisecond
