// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const unreadableStrategy = `{"selector": {}, "deletionPolicy": "Orphan", "serving": {"spec": {"version": "1.23"}},
	"rolloutStrategy": {"type": "All", "all": {"minSuccessTime": "1d"}}}`

// TestUnreadableStrategy holds that a KnativeFleet whose strategy cannot be read reports the strategy, keeps its children, and stops no
// rollout of other KnativeFleets.
func TestUnreadableStrategy(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.setSpec(unreadableStrategy)
	h.settle()
	h.shows("RolledOut=False/InvalidSpec")
	if children := h.children(api.Serving); len(children) != 3 {
		t.Errorf("the KnativeFleet has %d children, want 3", len(children))
	}
	fleet, err := h.Get(types.NamespacedName{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(fleet.GetFinalizers(), api.FleetFinalizer) {
		t.Errorf("the finalizers are %q, want %q for deletionPolicy Orphan", fleet.GetFinalizers(), api.FleetFinalizer)
	}
	if selection, err := h.r.Selection(types.NamespacedName{Namespace: team, Name: fleetName}); selection != nil || err != nil {
		t.Errorf("the selection is %v, the error %v, want neither", selection, err)
	}
	h.changeFleet(func(fleet *unstructured.Unstructured) { now := metav1.Now(); fleet.SetDeletionTimestamp(&now) })
	h.pass()
	if fleet, err = h.Get(types.NamespacedName{}); err != nil || slices.Contains(fleet.GetFinalizers(), api.FleetFinalizer) {
		t.Errorf("the deletion waits: finalizers %q, error %v", fleet.GetFinalizers(), err)
	}
}

// TestUnreadableSelection holds that a KnativeFleet that cannot be read stops no rollout of other KnativeFleets.
func TestUnreadableSelection(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.changeFleet(func(fleet *unstructured.Unstructured) { fleet.Object["spec"].(map[string]any)["selector"] = "x" }) //nolint:forcetypeassert // the spec is a map
	if selection, err := h.r.Selection(types.NamespacedName{Namespace: team, Name: fleetName}); selection != nil || err != nil {
		t.Errorf("the selection is %v, the error %v, want neither", selection, err)
	}
}

func TestDecodeFleet(t *testing.T) {
	const (
		spec   = `"spec": {"serving": {"spec": {"version": "1.23"}}, "rolloutStrategy": {"type": "All", "all": {"minSuccessTime": "1m"}}}`
		status = `"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00z"}], "rollout": {"total": 3}}`
	)
	unreadable := strings.Replace(spec, "1m", "1d", 1)
	limited := strings.Replace(spec, `{"serving"`, `{"maxRemoval": 3000000000, "serving"`, 1)
	for name, tc := range map[string]struct {
		content, problem string
		total            int32
		fails            bool
	}{
		"a fleet":                 {content: spec + `, "status": {"rollout": {"total": 3}}`, total: 3},
		"a status":                {content: spec + ", " + status},
		"a strategy":              {content: unreadable + `, "status": {"rollout": {"total": 3}}`, problem: `unknown unit "d"`, total: 3},
		"a strategy and a status": {content: unreadable + ", " + status, problem: "spec.rolloutStrategy cannot be read"},
		"a limit of removals":     {content: limited + `, "status": {"rollout": {"total": 3}}`, problem: "spec.maxRemoval cannot be read", total: 3},
		"all three": {
			content: strings.Replace(limited, "1m", "1d", 1) + ", " + status, problem: "spec.rolloutStrategy and spec.maxRemoval cannot be read",
		},
		"a selector": {content: `"spec": {"selector": "x"}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			fleet, no, err := decodeFleet(&unstructured.Unstructured{Object: decode(t, "{"+tc.content+"}")})
			if tc.fails {
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if fleet.Status.Rollout.Total != tc.total || fleet.Spec.Serving == nil {
				t.Errorf("the KnativeFleet is %+v", fleet)
			}
			if (no != nil) != (tc.problem != "") || no != nil && !strings.Contains(no.message, tc.problem) {
				t.Errorf("the problem is %v, want %q", no, tc.problem)
			}
		})
	}
}
