// Copyright Contributors to the Open Cluster Management project

package played

import (
	"slices"
	"sync"
	"time"
)

// Watchers call functions with each object that has changed. The functions must not change the object.
type Watchers[T any] struct {
	mu  sync.Mutex
	all []*func(T)
	// last is the time of the last change.
	last time.Time
}

// AddWatcher calls f with every object that changes, until the caller calls removeWatcher.
func (w *Watchers[T]) AddWatcher(f func(T)) (removeWatcher func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(w.all, func(other *func(T)) bool { return other == &f })
	}
}

// NotifyWatchers calls every function with an object that has changed.
func (w *Watchers[T]) NotifyWatchers(object T) {
	w.mu.Lock()
	w.last = time.Now()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, f := range all {
		(*f)(object)
	}
}

// QuietFor returns the time since the last change.
func (w *Watchers[T]) QuietFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last)
}
