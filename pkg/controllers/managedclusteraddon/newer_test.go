// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestNewerFoundation holds that a manager which updates the foundation of a newer manager keeps unknown annotations and labels.
func TestNewerFoundation(t *testing.T) {
	const unknown = api.Prefix + "of-a-newer-manager"
	newer := foundationWork()
	newer.Annotations[unknown], newer.Labels[unknown], newer.Finalizers = "annotation", "label", []string{unknown}
	newer.Annotations[api.DigestAnnotation] = "digest of a newer manager"
	h := newHub().annotated(unknown, "annotation").with(newer)
	h.addOn.Finalizers = []string{api.FoundationFinalizer, unknown}
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(h.updated) != 1 {
		t.Fatalf("updated: %v; requests %q", h.updated, h.actions)
	}
	w := h.updated[0]
	if w.Annotations[unknown] != "annotation" || w.Labels[unknown] != "label" || len(w.Finalizers) != 1 {
		t.Errorf("the foundation has annotations %v, labels %v and finalizers %v", w.Annotations, w.Labels, w.Finalizers)
	}
	if w.Annotations[api.DigestAnnotation] != "f1" {
		t.Errorf("the foundation is not of this manager: %v", w.Annotations)
	}
	if h.stored.Annotations[unknown] != "annotation" || len(h.stored.Finalizers) != 2 {
		t.Errorf("the add-on has annotations %v and finalizers %v", h.stored.Annotations, h.stored.Finalizers)
	}
}
