// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
)

// TestLeads holds that only accepted writes of a Lease renew the leadership, and for how long.
func TestLeads(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	const lease = "/apis/coordination.k8s.io/v1/namespaces/addons/leases/knative-addon"
	for name, tc := range map[string]struct {
		reason       string
		method, path string
		status       int
		later        time.Duration
		want         bool
	}{
		"a renewal":           {"The Lease is this process's.", http.MethodPut, lease, http.StatusOK, 9 * time.Second, true},
		"an acquisition":      {"The Lease is this process's.", http.MethodPost, lease, http.StatusCreated, 9 * time.Second, true},
		"an old renewal":      {"Another process may lead.", http.MethodPut, lease, http.StatusOK, 10 * time.Second, false},
		"a refused renewal":   {"Another process leads.", http.MethodPut, lease, http.StatusConflict, 0, false},
		"a read":              {"Another process may lead.", http.MethodGet, lease, http.StatusOK, 0, false},
		"an Event":            {"An Event is no Lease.", http.MethodPost, "/api/v1/namespaces/addons/events", http.StatusCreated, 0, false},
		"a time in the past":  {"The clock was set.", http.MethodPut, lease, http.StatusOK, -time.Hour, true},
		"a renewal long past": {"The process was suspended.", http.MethodPut, lease, http.StatusOK, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testclock.NewFakePassiveClock(time.Unix(1000, 0))
			l := &leadership{clock: clock}
			if l.leads() {
				t.Error("a process leads that never had the Lease")
			}
			client, err := rest.HTTPClientFor(l.observe(&rest.Config{Host: server.URL}))
			if err != nil {
				t.Fatal(err)
			}
			status = tc.status
			request, err := http.NewRequestWithContext(t.Context(), tc.method, server.URL+tc.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err = errors.Join(err, response.Body.Close()); err != nil {
				t.Fatal(err)
			}
			clock.SetTime(time.Unix(1000, 0).Add(tc.later))
			if l.leads() != tc.want {
				t.Errorf("%s The process leads: %t", tc.reason, l.leads())
			}
		})
	}
}
