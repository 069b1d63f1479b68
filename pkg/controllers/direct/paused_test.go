// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const pausedBy = `paused by annotation knative.open-cluster-management.io/paused of KnativeServing "knative-serving/self"`

// TestPaused holds that a paused resource gets nothing, and says why and how it goes on.
func TestPaused(t *testing.T) {
	w := newWorld(t, serving(finalized, annotated(api.PausedAnnotation, "true")))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	got := w.condition(api.InstallSucceeded)
	if got.Status != metav1.ConditionUnknown || got.Reason != api.ReasonDelivering ||
		got.Message != pausedBy+": the hub keeps what it has instead of this spec; take it away to go on" {
		t.Errorf("it says %+v", got)
	}
	if got := w.written(); !slices.Equal(got, []string{patchStatus}) {
		t.Errorf("written is %q", got)
	}
}

// TestPausedRemoval holds that nothing is removed during a pause, and that the resource can be let go all the same.
func TestPausedRemoval(t *testing.T) {
	w := newWorld(t, serving(finalized, leaving, annotated(api.PausedAnnotation, "true")))
	w.records()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.condition(api.Ready); got.Reason != api.ReasonRemoving || !strings.Contains(got.Message, "nothing is removed from the hub, because it is "+pausedBy+"; take it away to go on") {
		t.Errorf("it says %+v", got)
	}
	if got := w.written(); !slices.Equal(got, []string{patchStatus}) || len(w.config().GetFinalizers()) != 2 {
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
