// Copyright Contributors to the Open Cluster Management project

package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// leadership records when this process has renewed the Lease. controller-runtime ends a process that cannot renew the Lease within
// renewDeadline, but counts from the first attempt: a process that was suspended goes on for that long, and another process leads.
type leadership struct {
	clock   clock.PassiveClock
	renewed atomic.Pointer[time.Time]
}

// observe returns the configuration of a client whose writes of Leases count as renewals.
func (l *leadership) observe(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewals{next: next, leadership: l} })
	return out
}

// leads reports whether this process has renewed the Lease within renewDeadline. Both clocks of the system count: the monotonic clock may
// stand still while a machine is suspended, and the wall clock may be set.
func (l *leadership) leads() bool {
	renewed := l.renewed.Load()
	if renewed == nil {
		return false
	}
	now := l.clock.Now()
	return max(now.Sub(*renewed), now.Round(0).Sub(renewed.Round(0))) < renewDeadline
}

// renewals observes the requests of a client.
type renewals struct {
	next       http.RoundTripper
	leadership *leadership
}

// RoundTrip implements http.RoundTripper. A renewal counts from the time of the request.
func (r *renewals) RoundTrip(request *http.Request) (*http.Response, error) {
	begin := r.leadership.clock.Now()
	response, err := r.next.RoundTrip(request)
	isWrite := request.Method == http.MethodPost || request.Method == http.MethodPut || request.Method == http.MethodPatch
	if err == nil && isWrite && response.StatusCode/100 == 2 && strings.Contains(request.URL.Path, "/leases") {
		r.leadership.renewed.Store(&begin)
	}
	return response, err
}
