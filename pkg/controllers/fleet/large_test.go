// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestPassesAreBounded holds that one pass writes at most maxWrites children, that each child is written once, and that the next pass
// follows soon.
func TestPassesAreBounded(t *testing.T) {
	const clusters = 2*maxWrites + 1
	var profiles []*clusterinventoryv1alpha1.ClusterProfile
	for i := range clusters {
		profiles = append(profiles, newProfile(fmt.Sprintf("c%04d", i)))
	}
	h := newHub(t, allClusters, profiles...)
	for _, want := range []int{maxWrites, maxWrites, 1, 0} {
		writes, result := h.passAfter(time.Minute)
		created := 0
		for _, w := range writes {
			if strings.HasPrefix(w, "create ") {
				created++
			}
		}
		if created != want || (result.RequeueAfter == moreWrites) != (want == maxWrites) {
			t.Errorf("a pass creates %d children, want %d; the next pass is after %s", created, want, result.RequeueAfter)
		}
	}
	if got := len(h.children(api.Serving)); got != clusters {
		t.Errorf("%d children", got)
	}
	h.becomeReady()
	h.settle()
	// A confirmed removal of all children is bounded too.
	h.setSpec(`{"selector": {"matchLabels": {"env": "none"}}}`)
	h.changeFleet(confirmRemovals)
	h.pass()
	for _, want := range []int{maxWrites, maxWrites, 1} {
		deleted := 0
		for _, w := range h.pass() {
			if strings.HasPrefix(w, "delete ") {
				deleted++
			}
		}
		if deleted != want {
			t.Errorf("a pass deletes %d children, want %d", deleted, want)
		}
	}
}
