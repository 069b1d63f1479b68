// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// TestPaused holds that a pause keeps everything as it is, that what is there is still told, and that the end of the pause
// brings what was asked for.
func TestPaused(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		happens func(t *testing.T, s *clusterFixture)
		bundle  func(*render.Bundle)
		pending bool
	}{
		"nothing happens": {"There is nothing to do.", func(*testing.T, *clusterFixture) {}, func(*render.Bundle) {}, false},
		"another version": {"It is not applied.", func(*testing.T, *clusterFixture) {}, func(b *render.Bundle) { b.Version = "1.23.1" }, true},
		"another spec":    {"It is not applied.", func(*testing.T, *clusterFixture) {}, withOld(t), true},
		"an object that is not wanted": {
			"It is not pruned.", func(*testing.T, *clusterFixture) {}, without("Image"), true,
		},
		"an edited ConfigMap": {
			"It is not repaired.", func(_ *testing.T, s *clusterFixture) {
				s.edit("configmaps/knative-serving/config-network", func(*unstructured.Unstructured) {})
			}, func(*render.Bundle) {}, true,
		},
		"a deleted Image": {
			"It is not made again.", func(_ *testing.T, s *clusterFixture) { s.lose("images/knative-serving/queue-proxy") }, func(*render.Bundle) {}, true,
		},
		"a deleted anchor": {
			"It is not made again.", func(_ *testing.T, s *clusterFixture) { s.lose(anchorPath) }, func(*render.Bundle) {}, true,
		},
		"a refused object": {
			"It is not tried again.", func(t *testing.T, s *clusterFixture) {
				t.Helper()
				s.disturb(refuses(errForbidden, "apply images/knative-serving/more"))
				s.pass(t, bundleOf(t, withImage(t)))
				s.disturb(nil)
			}, withImage(t), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			s.settle(t, bundleOf(t))
			tc.happens(t, s)
			b := bundleOf(t, tc.bundle)
			s.catchUp(t)
			s.asked()
			for range 2 {
				out := s.pausedPass(t, b)
				if out.Pending != tc.pending || len(out.Observation.Failed) > 0 || len(out.Repaired) > 0 || out.Retry != 0 {
					t.Errorf("%s It tells %+v", tc.reason, out)
				}
				s.clock.SetTime(s.clock.Now().Add(longestRetry))
			}
			if asked := s.asked(); len(asked) > 0 {
				t.Errorf("%s Written is %q", tc.reason, asked)
			}
			s.settle(t, b)
			if out := s.pausedPass(t, b); out.Pending {
				t.Errorf("after the pause there is something to do: %+v", out)
			}
		})
	}
}

// pausedPass does a pass during a pause, which has to tell of the workload as long as it is recorded.
func (s *clusterFixture) pausedPass(t *testing.T, b *render.Bundle) Outcome {
	t.Helper()
	out, err := s.Sync(t.Context(), b, SyncOptions{Paused: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := []delivery.WorkloadState{{WorkloadKey: delivery.WorkloadKey{Kind: "Deployment", Namespace: installed, Name: "activator"}, State: workload.State{Desired: 1}}}
	if diff := cmp.Diff(seen, out.Observation.Workloads); diff != "" && s.find(anchorPath) != nil {
		t.Errorf("what is seen (-want +got):\n%s", diff)
	}
	return out
}

// withImage is one more Image.
func withImage(t *testing.T) func(*render.Bundle) {
	t.Helper()
	return func(b *render.Bundle) {
		b.Payload = append(b.Payload, rendered(t, inImages, "Image knative-serving/more", nil))
	}
}

// TestPausedFirst holds that nothing is claimed during a pause, and that somebody else's installation is told all the same.
func TestPausedFirst(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	if out, err := s.Sync(t.Context(), b, SyncOptions{Paused: true}); err != nil || !out.Pending {
		t.Errorf("on a free cluster: %+v, %v", out, err)
	}
	theirs := b.Payload[4]
	s.add(theirs.Resource, theirs.Unstructured)
	var unmanaged *inventory.UnmanagedError
	if _, err := s.Sync(t.Context(), b, SyncOptions{Paused: true}); !errors.As(err, &unmanaged) {
		t.Errorf("beside somebody else's: %v", err)
	}
	if out, err := s.Sync(t.Context(), b, SyncOptions{Paused: true, Adopt: true}); err != nil || !out.Pending {
		t.Errorf("before an adoption: %+v, %v", out, err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("written is %q", asked)
	}
}
