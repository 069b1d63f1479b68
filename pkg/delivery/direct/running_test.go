// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestRunningVersion holds that a version runs as soon as the workloads are rolled out and the Jobs complete, that the record
// outlives the manager, and that the next version does not run before its Job.
func TestRunningVersion(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.installs(t, render.Installed{Delivered: "1.23.0"})
	s.edit("deployments/knative-serving/activator", func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}
	})
	s.catchUp(t)
	s.installs(t, render.Installed{Delivered: "1.23.0"})
	s.edit("jobs/knative-serving/migrate", completed)
	s.catchUp(t)
	s.installs(t, render.Installed{Delivered: "1.23.0", Running: "1.23.0"})
	s.settle(t, b)
	s.restart()
	s.installs(t, render.Installed{Delivered: "1.23.0", Running: "1.23.0"})

	next := bundleOf(t, without("Job"), func(b *render.Bundle) {
		b.Version = "1.24.0"
		b.Payload = append(b.Payload, rendered(t, inJobs, "Job knative-serving/migrate-again", nil, render.OncePerVersion))
	})
	s.settle(t, next)
	s.installs(t, render.Installed{Delivered: "1.24.0", Running: "1.23.0"})
	s.edit("jobs/knative-serving/migrate-again", completed)
	s.settle(t, next)
	s.restart()
	s.installs(t, render.Installed{Delivered: "1.24.0", Running: "1.24.0"})
}

// TestReturnToRunningVersion holds that a cluster which goes back from a version that was delivered in part does not count as running the
// former version before the cluster runs that version again: the next step could otherwise skip a minor version.
func TestReturnToRunningVersion(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	rollOut := func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}
	}
	s.edit("deployments/knative-serving/activator", rollOut)
	s.edit("jobs/knative-serving/migrate", completed)
	s.settle(t, b)
	next := bundleOf(t, without("Job"), func(b *render.Bundle) {
		b.Version = "1.24.0"
		b.Payload = append(b.Payload, rendered(t, inJobs, "Job knative-serving/migrate-again", nil, render.OncePerVersion))
	})
	s.settle(t, next)
	s.installs(t, render.Installed{Delivered: "1.24.0", Running: "1.23.0"})
	s.settle(t, b)
	s.installs(t, render.Installed{Delivered: "1.23.0", Running: "1.24.0"})
	s.edit("jobs/knative-serving/migrate", completed)
	s.settle(t, b)
	s.installs(t, render.Installed{Delivered: "1.23.0", Running: "1.23.0"})
}

// TestRefusedUpgrade holds that a version of which the cluster refuses an object does not run, also after a restart of the manager, which forgets
// the refusal.
func TestRefusedUpgrade(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	rollOut := func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}
	}
	s.settle(t, b)
	s.edit("deployments/knative-serving/activator", rollOut)
	s.edit("jobs/knative-serving/migrate", completed)
	s.settle(t, b)
	next := bundleOf(t, without("Job"), without("Deployment"), func(b *render.Bundle) {
		b.Version = "1.24.0"
		b.Payload = append(b.Payload, rendered(t, inDeployments, "Deployment knative-serving/activator", map[string]any{"spec": map[string]any{"paused": true}}),
			rendered(t, inJobs, "Job knative-serving/migrate-again", nil, render.OncePerVersion))
	})
	s.disturb(refuses(errForbidden, "apply deployments"))
	for range 2 {
		s.pass(t, next)
		s.installs(t, render.Installed{Delivered: "1.24.0", Running: "1.23.0"})
		for _, name := range s.names() {
			if name == "jobs/knative-serving/migrate-again" {
				s.edit(name, completed)
			}
		}
		s.restart()
		s.catchUp(t)
		s.installs(t, render.Installed{Delivered: "1.24.0", Running: "1.23.0"})
	}
}

// TestAbandonedFoundation holds that a Namespace which the cluster refused, and which no later spec has, keeps no later version from running.
func TestAbandonedFoundation(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.runWorkloads()
	s.settle(t, b)
	s.disturb(refuses(errForbidden, "apply namespaces/gateway"))
	s.pass(t, bundleOf(t, func(b *render.Bundle) {
		b.Foundation = append(b.Foundation, rendered(t, inNamespaces, "Namespace gateway", nil))
	}))
	s.settle(t, b)
	s.settle(t, bundleOf(t, without("Job"), func(b *render.Bundle) {
		b.Version = "1.24.0"
		b.Payload = append(b.Payload, rendered(t, inJobs, "Job knative-serving/migrate-again", nil, render.OncePerVersion))
	}))
	s.installs(t, render.Installed{Delivered: "1.24.0", Running: "1.23.0"})
	s.edit("jobs/knative-serving/migrate-again", completed)
	next := bundleOf(t, without("Job"), func(b *render.Bundle) {
		b.Version = "1.24.0"
		b.Payload = append(b.Payload, rendered(t, inJobs, "Job knative-serving/migrate-again", nil, render.OncePerVersion))
	})
	s.settle(t, next)
	s.installs(t, render.Installed{Delivered: "1.24.0", Running: "1.24.0"})
}

// installs holds which versions the installation has.
func (s *clusterFixture) installs(t *testing.T, want render.Installed) {
	t.Helper()
	if got, err := s.Installed(t.Context(), installed); got != want || err != nil {
		t.Errorf("the versions are %+v (%v), want %+v", got, err, want)
	}
}

// TestObserveInventory holds that the anchor alone tells what runs, also after a restart of the manager, and that nothing is written.
func TestObserveInventory(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	if kept, err := s.ObserveInventory(t.Context(), installed); kept != nil || err != nil {
		t.Errorf("nothing is installed, and the state is %+v (%v)", kept, err)
	}
	s.settle(t, b)
	s.edit("deployments/knative-serving/activator", func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}
	})
	s.catchUp(t)
	s.observes(t, "Job knative-serving/migrate: the Job has not completed yet")
	s.edit("jobs/knative-serving/migrate", completed)
	s.settle(t, b)
	s.observes(t)
	s.restart()
	s.observes(t)
	s.edit("deployments/knative-serving/activator", func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration()}
	})
	s.catchUp(t)
	s.observes(t, "Deployment knative-serving/activator: 0 of 1 pods are updated")
}

// observes holds what is not ready by the inventory.
func (s *clusterFixture) observes(t *testing.T, want ...string) {
	t.Helper()
	kept, err := s.ObserveInventory(t.Context(), installed)
	if err != nil || kept == nil {
		t.Fatalf("the state is %+v (%v)", kept, err)
	}
	if diff := cmp.Diff(want, kept.NotReady()); diff != "" || kept.Observation.Waiting != "" {
		t.Errorf("waiting for %q, not ready (-want +got):\n%s", kept.Observation.Waiting, diff)
	}
}

// TestRecordedRevision holds that the record of the delivered spec outlives the manager, and passes without a hash.
func TestRecordedRevision(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	for _, hash := range []string{"h1", "", "h2"} {
		if _, err := s.Sync(t.Context(), b, SyncOptions{Revision: hash}); err != nil {
			t.Fatal(err)
		}
		s.restart()
		want := map[string]string{"h1": "h1", "": "h1", "h2": "h2"}[hash]
		if got, err := s.Installed(t.Context(), installed); got.Revision != want || err != nil {
			t.Errorf("after %q the record is %q (%v)", hash, got.Revision, err)
		}
	}
}
