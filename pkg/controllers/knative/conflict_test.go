// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestConflictIsTold holds that a resource which was Ready says that the Knative Operator has it, once for each generation,
// and that the resource is served again afterwards.
func TestConflictIsTold(t *testing.T) {
	h := newHub(t, serving("self", 100))
	h.settle("self")
	h.delivered()
	h.settle("self")
	if got := h.conditions("self")[0]; got != "Ready True Ready" {
		t.Fatalf("before, it says %q", got)
	}
	before := len(h.conditions("self"))
	h.told()
	operator := `Deployment "knative-operator/knative-operator"`
	h.m.Finder.Operator = func() string { return operator }
	if got := h.mustReconcile("self"); !slices.Equal(got, []string{patchStatus}) {
		t.Errorf("asked for %q", got)
	}
	want := []string{"Ready False Conflict", "TargetClusterResolved False Conflict"}
	if got := h.conditions("self"); !slices.Equal(got[:2], want) || len(got) != before {
		t.Errorf("it says %q", got)
	}
	if got := h.message("self", api.TargetClusterResolved); !strings.Contains(got, operator) {
		t.Errorf("the message is %q", got)
	}
	if got := h.told(); len(got) != 1 || !strings.Contains(got[0], "Warning Conflict") {
		t.Errorf("the Events are %q", got)
	}

	writeReady := func(c *unstructured.Unstructured) {
		conditions := []any{map[string]any{"type": api.Ready, "status": string(metav1.ConditionTrue), "reason": "Operator"}}
		if err := unstructured.SetNestedSlice(c.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
	}
	h.changeConfig("self", writeReady)
	if got := h.mustReconcile("self"); len(got) > 0 {
		t.Errorf("what the operator wrote is written over: %q", got)
	}
	h.changeConfig("self", func(c *unstructured.Unstructured) { c.SetGeneration(c.GetGeneration() + 1) })
	if got := h.mustReconcile("self"); !slices.Equal(got, []string{patchStatus}) {
		t.Errorf("after an edit asked for %q", got)
	}

	h.m.Finder.Operator = nil
	h.settle("self")
	if got := h.conditions("self")[0]; got != "Ready True Ready" {
		t.Errorf("afterwards it says %q", got)
	}
}

// TestConflictOfFleetConfiguration holds that a resource without a reference is told too.
func TestConflictOfFleetConfiguration(t *testing.T) {
	h := newHub(t, serving("self", 100, refersToNothing))
	h.m.Finder.Operator = func() string { return "Deployment" }
	h.settle("self")
	if got := h.conditions("self"); !slices.Contains(got, "TargetClusterResolved False Conflict") {
		t.Errorf("it says %q", got)
	}
}

// TestOtherManager holds that nothing is written of a resource that another manager serves.
func TestOtherManager(t *testing.T) {
	for name, config := range map[string]*unstructured.Unstructured{
		"new": serving("self", 100, refersToNothing), "leaving": serving("self", 100, finalized, beingDeleted),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, config)
			h.r.OtherManager = func(*unstructured.Unstructured) bool { return true }
			if got := h.mustReconcile("self"); len(got) > 0 {
				t.Errorf("asked for %q", got)
			}
		})
	}
}
