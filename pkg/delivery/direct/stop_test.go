// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/delivery"
)

const activator = "deployments/knative-serving/activator"

// setPods makes the cluster count pods of the activator.
func (s *clusterFixture) setPods(t *testing.T, pods int64) {
	t.Helper()
	s.setCount(t, "replicas", pods)
}

func (s *clusterFixture) setCount(t *testing.T, field string, pods int64) {
	t.Helper()
	s.edit(activator, func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, pods, "status", field); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPodsEndBeforePermissions holds that a removal stops the workloads, and deletes neither workloads nor permissions while the
// cluster counts pods.
func TestPodsEndBeforePermissions(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t))
	s.setPods(t, 1)
	s.asked()
	for range 2 {
		waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed})
		if err != nil || waiting != "waiting for the pods of these to end: Deployment.apps knative-serving/activator" {
			t.Fatalf("waiting %q, %v", waiting, err)
		}
	}
	if diff := cmp.Diff(map[string]any{"replicas": 0.0}, s.find(activator).Object["spec"]); diff != "" {
		t.Errorf("the activator (-want +got):\n%s", diff)
	}
	requests := s.asked()
	isPatch := func(r string) bool { return strings.HasPrefix(r, "patch deployments") }
	if !slices.ContainsFunc(requests, isPatch) {
		t.Fatalf("no patch among %q", requests)
	}
	for _, r := range requests {
		if strings.HasPrefix(r, "delete ") && !strings.Contains(r, "webhookconfigurations") {
			t.Errorf("%s while a pod runs", r)
		}
	}
	s.setPods(t, 0)
	s.setCount(t, "terminatingReplicas", 1)
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed}); err != nil || waiting == "" {
		t.Fatalf("a pod is ending: waiting %q, %v", waiting, err)
	}
	s.setCount(t, "terminatingReplicas", 0)
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true}); err != nil || waiting != "" {
		t.Fatalf("waiting %q, %v", waiting, err)
	}
	if diff := cmp.Diff([]string(nil), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if requests := s.asked(); slices.ContainsFunc(requests, isPatch) {
		t.Errorf("a stopped workload is patched again: %q", requests)
	}
}

// TestRemovalDespitePods holds that a removal goes on when the cluster never stops to count pods, when the cluster refuses to scale, and
// when the workload belongs to another owner.
func TestRemovalDespitePods(t *testing.T) {
	remove := func(t *testing.T, s *clusterFixture, want string) {
		t.Helper()
		if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed}); err != nil || waiting != want {
			t.Errorf("waiting %q, %v", waiting, err)
		}
	}
	t.Run("pods for ever", func(t *testing.T) {
		s := newClusterFixture(t)
		s.settle(t, bundleOf(t))
		s.setPods(t, 1)
		remove(t, s, "waiting for the pods of these to end: Deployment.apps knative-serving/activator")
		s.clock.SetTime(s.clock.Now().Add(delivery.LongestStop - time.Second))
		remove(t, s, "waiting for the pods of these to end: Deployment.apps knative-serving/activator")
		s.clock.SetTime(s.clock.Now().Add(time.Second))
		remove(t, s, "")
		if s.find(activator) != nil {
			t.Error("the activator is left")
		}
	})
	t.Run("a refused patch", func(t *testing.T) {
		s := newClusterFixture(t)
		s.settle(t, bundleOf(t))
		s.setPods(t, 1)
		s.disturb(func(request string) error {
			if strings.HasPrefix(request, "patch deployments") {
				return errors.New("denied by a policy")
			}
			return nil
		})
		remove(t, s, "")
	})
	t.Run("another owner", func(t *testing.T) {
		s := newClusterFixture(t)
		s.settle(t, bundleOf(t))
		s.setPods(t, 1)
		s.edit(activator, func(u *unstructured.Unstructured) { u.SetUID(types.UID("another")) })
		remove(t, s, "")
		if o := s.find(activator); o == nil {
			t.Error("the activator of another owner is deleted")
		} else if diff := cmp.Diff(map[string]any{"replicas": 1.0}, o.Object["spec"]); diff != "" {
			t.Errorf("the activator of another owner (-want +got):\n%s", diff)
		}
	})
}
