// Copyright Contributors to the Open Cluster Management project

package main

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
	w.Spec.ManifestConfigs = manifestwork.PayloadConfigs()

	holdsNext(t, w, adopt, 0)
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	holdsNext(t, w, apply, applyTime)
	var err error
	if w.Status, err = appliedStatus(w); err != nil {
		t.Fatal(err)
	}
	if applied, why := manifestwork.Applied(w); !applied {
		t.Errorf("the work is not applied: %s", why)
	}
	holdsNext(t, w, look, lookTime)
	if w.Status, err = seenStatus(w); err != nil {
		t.Fatal(err)
	}
	holdsNext(t, w, idle, -1)
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
	holdsNext(t, w, apply, applyTime)
	w.DeletionTimestamp = &metav1.Time{}
	holdsNext(t, w, releaseFinalizer, 0)
}

// TestAgentNeverFindsGate holds that the ConfigMap of a closed gate is missing, that a second look finds nothing new, and that the
// ConfigMap of an open gate exists.
func TestAgentNeverFindsGate(t *testing.T) {
	bundle := &render.Bundle{Component: api.Serving, Namespace: "knative-serving"}
	w := manifestwork.Gate(bundle, &addonv1beta1.ManagedClusterAddOn{}, nil)
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	for _, status := range []func(*workv1.ManifestWork) (workv1.ManifestWorkStatus, error){appliedStatus, seenStatus} {
		var err error
		if w.Status, err = status(w); err != nil {
			t.Fatal(err)
		}
		holdsNext(t, w, look, lookTime)
	}
	again, err := seenStatus(w)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(again, w.Status) {
		t.Errorf("it sees %+v, and then %+v", w.Status, again)
	}
	if !apimeta.IsStatusConditionFalse(w.Status.Conditions, workv1.WorkAvailable) {
		t.Errorf("conditions are %+v", w.Status.Conditions)
	}
	manifestwork.OpenGate(w, bundle)
	for _, status := range []func(*workv1.ManifestWork) (workv1.ManifestWorkStatus, error){appliedStatus, seenStatus} {
		if w.Status, err = status(w); err != nil {
			t.Fatal(err)
		}
	}
	if !apimeta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkAvailable) {
		t.Errorf("conditions of an open gate are %+v", w.Status.Conditions)
	}
}

func holdsNext(t *testing.T, w *workv1.ManifestWork, want step, wantAfter time.Duration) {
	t.Helper()
	if s, after := next(w); s != want || after != wantAfter {
		t.Errorf("next is %d after %s, want %d after %s", s, after, want, wantAfter)
	}
}
