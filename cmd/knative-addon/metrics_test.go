// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordedHosts records label host of each counted request.
type recordedHosts struct{ hosts []string }

func (r *recordedHosts) Increment(_ context.Context, _, _, host string) {
	r.hosts = append(r.hosts, host)
}

// TestHostBounds holds that the address of a cluster becomes no value of a label.
func TestHostBounds(t *testing.T) {
	var recorded recordedHosts
	bounds := hostBounds{&recorded, "10.96.0.1:443"}
	for _, host := range []string{"10.96.0.1:443", "edge-7.example.com", "edge-8.example.com:6443"} {
		bounds.Increment(t.Context(), "200", "GET", host)
	}
	if diff := cmp.Diff([]string{"10.96.0.1:443", otherHost, otherHost}, recorded.hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}
