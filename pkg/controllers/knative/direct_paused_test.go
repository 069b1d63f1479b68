// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

const pausedBy = `paused by annotation knative.open-cluster-management.io/paused of KnativeServing "knative-serving/self"`

// TestDirectPaused holds that a paused resource gets nothing, and says why and how it goes on.
func TestDirectPaused(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, withAnnotation(api.PausedAnnotation, "true")))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	got := w.condition(api.InstallSucceeded)
	if got.Status != metav1.ConditionUnknown || got.Reason != api.ReasonPaused ||
		got.Message != pausedBy+": the hub keeps its installation instead of this spec; remove the annotation to continue" {
		t.Errorf("it says %+v", got)
	}
	if got := w.written(); !slices.Equal(got, []string{directPatchStatus}) {
		t.Errorf("written is %q", got)
	}
}

// TestDirectOtherManager holds that nothing is written of a resource that another manager serves, also not while it is deleted.
func TestDirectOtherManager(t *testing.T) {
	for name, config := range map[string]*unstructured.Unstructured{"new": localServing(), "leaving": localServing(directFinalized, beingDeleted)} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, config)
			w.r.OtherManager = func(*unstructured.Unstructured) bool { return true }
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := w.written(); len(got) > 0 {
				t.Errorf("written is %q", got)
			}
		})
	}
}

// TestConflict holds that a manager which alone serves a resource says that the Knative Operator has the resource.
func TestConflict(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized))
	w.unserved = true
	w.conflict = resolve.Result{Reason: api.ReasonConflict, Message: "of the operator"}
	for range 2 {
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.condition(api.TargetClusterResolved); got.Reason != api.ReasonConflict || got.Message != "of the operator" {
		t.Errorf("it says %+v", got)
	}
	if got := w.written(); !slices.Equal(got, []string{directPatchStatus}) {
		t.Errorf("written is %q", got)
	}
}

// TestPausedRemoval holds that nothing is removed during a pause, and that force-orphan works nevertheless.
func TestPausedRemoval(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted, withAnnotation(api.PausedAnnotation, "true")))
	w.records()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.condition(api.Ready); got.Reason != api.ReasonRemoving || !strings.Contains(got.Message, "nothing is removed from the hub, because the resource is "+pausedBy+"; remove the annotation to continue") {
		t.Errorf("it says %+v", got)
	}
	if got := w.written(); !slices.Equal(got, []string{directPatchStatus}) || len(w.config().GetFinalizers()) != 2 {
		t.Errorf("written is %q", got)
	}
	orphan := w.config().DeepCopy()
	orphan.SetAnnotations(map[string]string{api.PausedAnnotation: "true", api.ForceOrphanAnnotation: "true"})
	if err := w.configs.Tracker().Update(api.Serving.Resource(), orphan, "knative-serving"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.mustBeReleased("It is orphaned.")
}
