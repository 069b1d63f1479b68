// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// watchers are told of each object that has changed. They must not change it.
type watchers[T any] struct {
	mu  sync.Mutex
	all []*func(T)
	// last is when an object has changed last.
	last time.Time
}

// watch tells f of what changes from now on, until the returned function is called.
func (w *watchers[T]) watch(f func(T)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(w.all, func(other *func(T)) bool { return other == &f })
	}
}

func (w *watchers[T]) tell(o T) {
	w.mu.Lock()
	w.last = time.Now()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, f := range all {
		(*f)(o)
	}
}

// quietFor is for how long nothing has changed.
func (w *watchers[T]) quietFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last)
}

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

// patience is how long anything may take.
const patience = 15 * time.Minute
