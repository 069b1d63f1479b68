// Copyright Contributors to the Open Cluster Management project

package played

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func TestAgentReportsStatus(t *testing.T) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "payload", Generation: 3}}
	for _, raw := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"config-leader-election"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":"one"},"spec":{}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":"two"},"spec":{"replicas":2}}`,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"n","name":"once"}}`,
	} {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
	}
	w.Spec.ManifestConfigs = manifestwork.PayloadConfigs()

	checkNextStep(t, w, adopt, 0)
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	checkNextStep(t, w, apply, applyTime)
	var err error
	if w.Status, err = appliedStatus(w); err != nil {
		t.Fatal(err)
	}
	if applied, why := manifestwork.Applied(w); !applied {
		t.Errorf("the work is not applied: %s", why)
	}
	checkNextStep(t, w, observe, observeTime)
	if w.Status, err = observedStatus(w); err != nil {
		t.Fatal(err)
	}
	checkNextStep(t, w, idle, -1)
	for name, done := range manifestwork.RolledOut(w) {
		if !done {
			t.Errorf("%v is not rolled out", name)
		}
	}
	if _, ok := manifestwork.RolledOut(w)[delivery.WorkloadKey{Kind: "Deployment", Namespace: "n", Name: "two"}]; !ok {
		t.Error("nothing is reported of a Deployment")
	}
	for i, want := range []metav1.ConditionStatus{"", "", "", metav1.ConditionTrue} {
		m := w.Status.ResourceStatus.Manifests[i]
		var got metav1.ConditionStatus
		for _, c := range m.Conditions {
			switch c.Type {
			case "Finished":
				got = c.Status
			case workv1.ManifestComplete:
				t.Errorf("%s has condition %s", m.ResourceMeta.Name, c.Type)
			}
		}
		if got != want {
			t.Errorf("Finished of %s is %q, want %q", m.ResourceMeta.Name, got, want)
		}
	}

	w.Generation++
	checkNextStep(t, w, apply, applyTime)
	w.DeletionTimestamp = &metav1.Time{}
	checkNextStep(t, w, releaseFinalizer, 0)
}

// TestAgentNeverFindsGate holds that the ConfigMap of a closed gate is missing, that a second observation finds nothing new, and that the
// ConfigMap of an open gate exists.
func TestAgentNeverFindsGate(t *testing.T) {
	bundle := &render.Bundle{Component: api.Serving, Namespace: "knative-serving"}
	w := manifestwork.Gate(bundle, &addonv1beta1.ManagedClusterAddOn{}, nil)
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	for _, status := range []func(*workv1.ManifestWork) (workv1.ManifestWorkStatus, error){appliedStatus, observedStatus} {
		var err error
		if w.Status, err = status(w); err != nil {
			t.Fatal(err)
		}
		checkNextStep(t, w, observe, observeTime)
	}
	again, err := observedStatus(w)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(again, w.Status) {
		t.Errorf("the agent observes %+v, and then %+v", w.Status, again)
	}
	if !apimeta.IsStatusConditionFalse(w.Status.Conditions, workv1.WorkAvailable) {
		t.Errorf("conditions are %+v", w.Status.Conditions)
	}
	manifestwork.OpenGate(w, bundle)
	for _, status := range []func(*workv1.ManifestWork) (workv1.ManifestWorkStatus, error){appliedStatus, observedStatus} {
		if w.Status, err = status(w); err != nil {
			t.Fatal(err)
		}
	}
	if !apimeta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkAvailable) {
		t.Errorf("conditions of an open gate are %+v", w.Status.Conditions)
	}
}

func checkNextStep(t *testing.T, w *workv1.ManifestWork, want step, wantAfter time.Duration) {
	t.Helper()
	if s, after := nextStep(w); s != want || after != wantAfter {
		t.Errorf("the next step is %d after %s, want %d after %s", s, after, want, wantAfter)
	}
}
