// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestLoadCountsFailures holds that a load counts each request once, and as failed without status 200, without the expected body, and
// without an answer in time.
func TestLoadCountsFailures(t *testing.T) {
	const timeout = 15 * time.Second // a busy machine answers the other requests later than at once
	var served, refused, wrong, late atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch served.Add(1) % 4 {
		case 0:
			refused.Add(1)
			http.Error(w, "hello", http.StatusServiceUnavailable)
		case 1:
			wrong.Add(1)
			fmt.Fprint(w, "somebody else")
		case 2:
			late.Add(1)
			select {
			case <-r.Context().Done():
			case <-time.After(10 * timeout):
			}
		default:
			fmt.Fprint(w, "hello world")
		}
	}))
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	load := StartLoad(t.Context(), request, "hello", 5*time.Millisecond, timeout)
	for served.Load() < 40 {
		time.Sleep(time.Millisecond)
	}
	report := load.Stop()
	if want := int(served.Load()); report.Requests != want {
		t.Errorf("the report has %d requests, and the server has had %d", report.Requests, want)
	}
	if want := int(refused.Load() + wrong.Load() + late.Load()); report.Failed != want {
		t.Errorf("the report has %d failed requests, want %d: %s", report.Failed, want, report)
	}
	if len(report.Failures) != mostFailures {
		t.Errorf("the report describes %d failures, want %d", len(report.Failures), mostFailures)
	}
	if report.Slowest < timeout {
		t.Errorf("the slowest request took %s, want the timeout of %s at least", report.Slowest, timeout)
	}
}
