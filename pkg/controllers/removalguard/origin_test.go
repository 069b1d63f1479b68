// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// aged has the ClusterManagementAddOn and all add-ons made that long ago.
func (h *fakeHub) aged(definition, addOns time.Duration) *fakeHub {
	h.definition.CreationTimestamp = metav1.NewTime(now.Add(-definition))
	for _, a := range h.addOns {
		a.CreationTimestamp = metav1.NewTime(now.Add(-addOns))
	}
	return h
}

// deletedAgo has the add-ons deleted so long ago, the first first.
func (h *fakeHub) deletedAgo(ago ...time.Duration) *fakeHub {
	for i, d := range ago {
		h.addOns[i].DeletionTimestamp = &metav1.Time{Time: now.Add(-d)}
	}
	return h
}

// writes returns the actions that count, release and report the add-ons with these numbers.
func (h *fakeHub) writes(allowed, told, counted []int) []string {
	var out []string
	for _, i := range counted {
		out = append(out, fmt.Sprintf(`patch clustermanagementaddons knative-serving {"annotations":{"removals":"16666:uid%05d"}}`, i))
	}
	for i := range h.addOns {
		if slices.Contains(allowed, i) {
			out = append(out, fmt.Sprintf(`patch managedclusteraddons c%d/knative-serving {"annotations":{"removal-allowed":"1000000"}}`, i))
		}
		if slices.Contains(told, i) {
			out = append(out, fmt.Sprintf("patch managedclusteraddons/status c%d/knative-serving conditions", i))
		}
	}
	return out
}

// TestUncertainOrigin holds that installStrategy Manual lets go at once of what somebody has deleted by name, and of nothing else.
func TestUncertainOrigin(t *testing.T) {
	settles := settlingDecision("more add-ons may follow")
	away := determineDecision(&input{availability: clusterUnavailable, strategy: strategyPlacements, settled: true})
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		// allowed, told and counted are the add-ons, by number, that are let go, whose condition is written, and that are
		// counted.
		allowed, told, counted []int
		event                  string
	}{
		"switched before the budget has decided": {
			reason: "They were deleted by Placements.",
			hub:    newHub(3).manual().deleted(3).held(3, settles), told: []int{0, 1, 2}, event: "MassRemoval",
		},
		"switched while replacements were awaited": {
			reason: "They were deleted by Placements.",
			hub:    newHub(3).manual().deleted(3).held(3, replacementDecision()), told: []int{0, 1, 2}, event: "MassRemoval",
		},
		"switched while one replacement was awaited": {
			reason: "One may go, and there is no replacement any more.",
			hub:    newHub(3).manual().deleted(1).held(1, replacementDecision()), allowed: []int{0}, counted: []int{0},
		},
		"back after a switch": {
			reason: "They may have been deleted because they were unavailable.",
			hub:    newHub(3).manual().deleted(3).held(3, away), told: []int{0, 1, 2}, event: "MassRemoval",
		},
		"back, and others are deleted by name": {
			reason: "What waited for its cluster keeps nobody.",
			hub:    newHub(3).manual().deleted(3).held(1, away), allowed: []int{0, 1, 2}, counted: []int{0},
		},
		"deleted by OCM when the strategy had changed": {
			reason: "OCM finishes its batch.",
			hub:    newHub(4).manual().deletedAgo(48*time.Second, 30*time.Second, 39*time.Second, 21*time.Second).held(1, settles), told: []int{0, 1, 2, 3}, event: "MassRemoval",
		},
		"deleted by OCM before the first that was held": {
			reason: "The guard was not there yet.",
			hub:    newHub(2).manual().deletedAgo(30*time.Second, 39*time.Second).held(1, settles), told: []int{0, 1}, event: "MassRemoval",
		},
		"deleted by name after a mass removal": {
			reason: "It is not of that batch.",
			hub:    newHub(3).manual().deletedAgo(time.Minute, time.Minute, 11*time.Second).held(2, massRemovalDecision(api.Serving)), allowed: []int{2},
		},
		"deleted with the ClusterManagementAddOn before": {
			reason: "It took all add-ons with it.",
			hub:    newHub(3).manual().aged(30*time.Second, time.Hour).deleted(3), told: []int{0, 1, 2}, event: "MassRemoval",
		},
		"deleted with the ClusterManagementAddOn before, and late": {
			reason: "Kubernetes finishes what it has begun.",
			hub:    newHub(3).manual().aged(10*time.Minute, time.Hour).deleted(3), told: []int{0, 1, 2}, event: "MassRemoval",
		},
		"an old add-on is deleted soon after the ClusterManagementAddOn was made": {
			reason: "One may go.",
			hub:    newHub(3).manual().aged(10*time.Minute, time.Hour).deleted(1), allowed: []int{0}, counted: []int{0},
		},
		"old add-ons are deleted by name": {
			reason: "Kubernetes has long finished.",
			hub:    newHub(3).manual().aged(2*time.Hour, 3*time.Hour).deleted(3), allowed: []int{0, 1, 2},
		},
		"young add-ons are deleted by name": {
			reason: "They are of the present ClusterManagementAddOn.",
			hub:    newHub(3).manual().aged(10*time.Minute, 5*time.Minute).deleted(3), allowed: []int{0, 1, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.hub.writes(tc.allowed, tc.told, tc.counted)
			tc.hub.reconcile(t)
			if diff := cmp.Diff(want, tc.hub.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got := strings.Join(tc.hub.events, "\n"); !strings.Contains(got, tc.event) || strings.Count(got, api.ReasonRemovalAllowed) != len(tc.allowed) || tc.event == "" && len(tc.hub.events) != len(tc.allowed) {
				t.Errorf("events are %q, want %q", got, tc.event)
			}
		})
	}
}

// TestYoungBatchWaits holds that what may still grow waits also with strategy Manual.
func TestYoungBatchWaits(t *testing.T) {
	h := newHub(3).manual().deletedAgo(9*time.Second, 4*time.Second).held(1, settlingDecision("more add-ons may follow"))
	h.reconcile(t)
	if diff := cmp.Diff([]string{"patch managedclusteraddons/status c1/knative-serving conditions"}, h.actions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h.wait != batchDelay-4*time.Second {
		t.Errorf("waits %s", h.wait)
	}
}

// TestYoungRemovalByName holds that a deletion by name waits for the cache of the ClusterManagementAddOn without a condition, which would make its
// origin uncertain, and belongs to a batch of Placements during the wait.
func TestYoungRemovalByName(t *testing.T) {
	h := newHub(3).manual().deletedAgo(time.Second, time.Second, 2*time.Second)
	h.reconcile(t)
	if len(h.actions) > 0 || h.wait != cacheDelay-2*time.Second {
		t.Errorf("the guard does %q and waits %s", h.actions, h.wait)
	}
	h.deletedAgo(cacheDelay, cacheDelay, cacheDelay).reconcile(t)
	if diff := cmp.Diff(h.writes([]int{0, 1, 2}, nil, nil), h.actions); diff != "" {
		t.Errorf("after the wait (-want +got):\n%s", diff)
	}

	deleted := newHub(3).manual().deletedAgo(cacheDelay, cacheDelay, cacheDelay)
	deleted.definition = nil
	deleted.reconcile(t)
	if diff := cmp.Diff(deleted.writes(nil, []int{0, 1, 2}, nil), deleted.actions); diff != "" {
		t.Errorf("the cache has no ClusterManagementAddOn any more (-want +got):\n%s", diff)
	}

	batch := newHub(2).manual().deletedAgo(9*time.Second, time.Second).held(1, settlingDecision("more add-ons may follow"))
	batch.reconcile(t)
	if diff := cmp.Diff(batch.writes(nil, []int{1}, nil), batch.actions); diff != "" {
		t.Errorf("in a batch of Placements (-want +got):\n%s", diff)
	}
}
