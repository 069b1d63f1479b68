// Copyright Contributors to the Open Cluster Management project

package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
)

func TestAgentAnswers(t *testing.T) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "payload", Generation: 3}}
	for _, raw := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"config-leader-election"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":"one"},"spec":{}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":"two"},"spec":{"replicas":2}}`,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"n","name":"once"}}`,
	} {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
	}
	w.Spec.ManifestConfigs = work.PayloadConfigs()

	holdsNext(t, w, adopt, 0)
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	holdsNext(t, w, apply, applyTime)
	var err error
	if w.Status, err = appliedStatus(w); err != nil {
		t.Fatal(err)
	}
	if applied, why := work.Applied(w); !applied {
		t.Errorf("the work is not applied: %s", why)
	}
	holdsNext(t, w, look, lookTime)
	if w.Status, err = seenStatus(w, nil); err != nil {
		t.Fatal(err)
	}
	holdsNext(t, w, idle, -1)
	for name, done := range work.RolledOut(w) {
		if !done {
			t.Errorf("%v is not rolled out", name)
		}
	}
	if _, ok := work.RolledOut(w)[delivery.WorkloadKey{Kind: "Deployment", Namespace: "n", Name: "two"}]; !ok {
		t.Error("nothing is reported of a Deployment")
	}
	for i, want := range []metav1.ConditionStatus{metav1.ConditionFalse, "", "", metav1.ConditionTrue} {
		m := w.Status.ResourceStatus.Manifests[i]
		var got metav1.ConditionStatus
		for _, c := range m.Conditions {
			if c.Type == workv1.ManifestComplete {
				got = c.Status
			}
		}
		if got != want {
			t.Errorf("Complete of %s is %q, want %q", m.ResourceMeta.Name, got, want)
		}
	}

	w.Generation++
	holdsNext(t, w, apply, applyTime)
	missesProof(t, w)
	w.DeletionTimestamp = &metav1.Time{}
	holdsNext(t, w, letGo, 0)
}

// missesProof has the work refer to an object that only another one brings.
func missesProof(t *testing.T, w *workv1.ManifestWork) {
	t.Helper()
	raw := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"knative-serving-runs-1"}}`)
	manifest := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
	w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, manifest)
	proof := &workv1.ManifestWork{Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{manifest}}}}
	for _, status := range []func() error{
		func() (err error) { w.Status, err = appliedStatus(w); return err },
		func() (err error) { w.Status, err = seenStatus(w, []*workv1.ManifestWork{proof}); return err },
	} {
		if err := status(); err != nil {
			t.Fatal(err)
		}
		holdsNext(t, w, look, lookTime)
	}
	var err error
	if proof.Status, err = appliedStatus(proof); err != nil {
		t.Fatal(err)
	}
	if w.Status, err = seenStatus(w, []*workv1.ManifestWork{proof}); err != nil {
		t.Fatal(err)
	}
	holdsNext(t, w, idle, -1)
}

func holdsNext(t *testing.T, w *workv1.ManifestWork, want step, wantAfter time.Duration) {
	t.Helper()
	if s, after := next(w); s != want || after != wantAfter {
		t.Errorf("next is %d after %s, want %d after %s", s, after, want, wantAfter)
	}
}
