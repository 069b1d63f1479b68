// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRemovalAwaitsNamespace holds that a removal of the install namespace does not end while an object of a user holds the namespace, although
// the anchor is gone.
func TestRemovalAwaitsNamespace(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t))
	namespace := "namespaces/" + installed
	s.edit(namespace, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"kubernetes"}) })
	options := RemoveOptions{Namespace: installed, Foundation: true}
	for n := 0; s.find(namespace).GetDeletionTimestamp() == nil; n++ {
		if _, err := s.Remove(t.Context(), options); err != nil || n > 20 {
			t.Fatalf("after %d steps the namespace is not deleted, error %v", n, err)
		}
		s.catchUp(t)
	}
	s.edit(namespace, func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content has finalizers remaining: users.example.com/hold in 1 resource instances",
		}}}
	})
	s.lose(anchorPath)
	s.catchUp(t)
	waiting, err := s.Remove(t.Context(), options)
	if err != nil || !strings.Contains(waiting, installed) || !strings.Contains(waiting, "users.example.com/hold") {
		t.Errorf("the removal waits for %q, error %v", waiting, err)
	}
	s.restart()
	if waiting, err := s.Remove(t.Context(), options); err != nil || !strings.Contains(waiting, "users.example.com/hold") {
		t.Errorf("after a restart the removal waits for %q, error %v", waiting, err)
	}
	s.lose(namespace)
	s.catchUp(t)
	if waiting, err := s.Remove(t.Context(), options); !errors.Is(err, ErrNothingInstalled) || waiting != "" {
		t.Errorf("after the end of the namespace the removal waits for %q, error %v", waiting, err)
	}
}
