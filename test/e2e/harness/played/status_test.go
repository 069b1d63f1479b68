// Copyright Contributors to the Open Cluster Management project

package played

import (
	"bytes"
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

// TestAgentFindsReferences holds that the ConfigMap of a gate exists, that a second observation finds nothing new, and that another ConfigMap
// that a work refers to is missing.
func TestAgentFindsReferences(t *testing.T) {
	bundle := &render.Bundle{Component: api.Serving, Namespace: "knative-serving"}
	gate := manifestwork.Gate(bundle, &addonv1beta1.ManagedClusterAddOn{})
	other := gate.DeepCopy()
	other.Spec.Workload.Manifests[0].Raw = bytes.ReplaceAll(other.Spec.Workload.Manifests[0].Raw, []byte(rootCertificates), []byte("other"))
	other.Spec.ManifestConfigs[0].ResourceIdentifier.Name = "other"
	for _, tc := range []struct {
		work  *workv1.ManifestWork
		want  metav1.ConditionStatus
		next  step
		after time.Duration
	}{{gate, metav1.ConditionTrue, idle, -1}, {other, metav1.ConditionFalse, observe, observeTime}} {
		w := tc.work
		w.Finalizers = []string{workv1.ManifestWorkFinalizer}
		for _, status := range []func(*workv1.ManifestWork) (workv1.ManifestWorkStatus, error){appliedStatus, observedStatus} {
			var err error
			if w.Status, err = status(w); err != nil {
				t.Fatal(err)
			}
		}
		checkNextStep(t, w, tc.next, tc.after)
		again, err := observedStatus(w)
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(again, w.Status) {
			t.Errorf("the agent observes %+v, and then %+v", w.Status, again)
		}
		if !apimeta.IsStatusConditionPresentAndEqual(w.Status.Conditions, workv1.WorkAvailable, tc.want) {
			t.Errorf("conditions are %+v, want Available %s", w.Status.Conditions, tc.want)
		}
	}
}

func checkNextStep(t *testing.T, w *workv1.ManifestWork, want step, wantAfter time.Duration) {
	t.Helper()
	if s, after := nextStep(w); s != want || after != wantAfter {
		t.Errorf("the next step is %d after %s, want %d after %s", s, after, want, wantAfter)
	}
}
