// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestDeletedRevisionIsRecordedAgain(t *testing.T) {
	h := newRecordHub(t)
	h.apply("1.21", nil)
	h.settle()
	r := h.list()[0]
	if err := h.kube.Tracker().Delete(appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), "fleet", r.Name); err != nil {
		t.Fatal(err)
	}
	requests := h.r.observeRevision(t.Context(), &r)
	if len(requests) != 1 || requests[0].Name != "default" {
		t.Fatalf("requests are %v", requests)
	}
	h.settle()
	h.want("Clusters may be at it.", "1 1.21  u1")
	r.Labels[api.RevisionLabel] = string(api.Eventing)
	if requests := h.r.observeRevision(t.Context(), &r); len(requests) > 0 {
		t.Errorf("requests are %v", requests)
	}
}

// TestChangedRevisionIsRestored holds that a revision which a user changed counts again.
func TestChangedRevisionIsRestored(t *testing.T) {
	for name, change := range map[string]func(*appsv1.ControllerRevision){
		"label":    func(r *appsv1.ControllerRevision) { r.Labels = nil },
		"owner":    func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil },
		"hash":     func(r *appsv1.ControllerRevision) { r.Annotations[api.SpecHashAnnotation] = "x" },
		"the data": func(r *appsv1.ControllerRevision) { r.Labels, r.Data.Raw = nil, []byte(`{"spec":{"version":"1.20"}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newRecordHub(t)
			h.apply("1.21", nil)
			h.settle()
			r := h.list()[0]
			change(&r)
			if err := h.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), &r, "fleet"); err != nil {
				t.Fatal(err)
			}
			h.settle()
			h.want("It counts again.", "1 1.21  u1")
		})
	}
}

func TestNothingIsRecordedWithoutResource(t *testing.T) {
	h := newRecordHub(t)
	if asked, err := h.reconcile(); err != nil || len(asked) > 0 {
		t.Errorf("asked for %v, error %v", asked, err)
	}
}
