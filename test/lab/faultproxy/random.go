// Copyright Contributors to the Open Cluster Management project

package faultproxy

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

const (
	// slowest is the longest delay of a request, shortestWatch to longestWatch how long a watch lasts that ends early.
	slowest                     = 2 * time.Second
	shortestWatch, longestWatch = time.Second, 10 * time.Second
)

// Random returns a Fault that injects a fault into a share of the requests, from 0 to 1, and ends the same share of watches
// early. The faults are: 429 with Retry-After, 500, 503, a connection that ends before the API server has the request or after
// its answer, and a delay of up to 2 s. The same seed chooses the same faults in the same order.
func Random(seed uint64, share float64) Fault {
	dice := &dice{rand: rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // reproducible, not secret
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if !dice.below(share) {
			forward.ServeHTTP(w, r)
			return
		}
		if r.URL.Query().Has("watch") {
			ctx, cancel := context.WithTimeout(r.Context(), shortestWatch+dice.upTo(longestWatch-shortestWatch))
			defer cancel()
			forward.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		faults := []Fault{refuse(http.StatusTooManyRequests), refuse(http.StatusInternalServerError), refuse(http.StatusServiceUnavailable), reset, LoseAnswer, dice.delay}
		faults[dice.of(len(faults))](w, r, forward)
	}
}

// refuse answers with a status code, as a proxy or an overloaded API server does.
func refuse(code int) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, "an injected fault", code)
	}
}

// reset ends the request before the API server has the request.
func reset(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// LoseAnswer is a Fault that has the API server serve the request, and ends the request without the answer.
func LoseAnswer(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
	Serve(r, forward)
	panic(http.ErrAbortHandler)
}

// Serve has the API server serve the request and drops the answer.
func Serve(r *http.Request, forward http.Handler) { forward.ServeHTTP(httptest.NewRecorder(), r) }

// dice is a source of random numbers for requests that run at the same time.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (d *dice) below(share float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.Float64() < share
}

func (d *dice) of(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

func (d *dice) upTo(most time.Duration) time.Duration { return time.Duration(d.of(int(most))) }

// delay forwards the request after a while.
func (d *dice) delay(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	select {
	case <-r.Context().Done():
	case <-time.After(d.upTo(slowest)):
		forward.ServeHTTP(w, r)
	}
}
