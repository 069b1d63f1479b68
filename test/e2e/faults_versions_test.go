// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestVersionFaults edits the version of a fleet while the work agent of a cluster is stopped, enters a version twice, and enters a version with a
// Job that cannot finish.
func TestVersionFaults(t *testing.T) {
	startNightlyStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync}, "--leader-elect=false")
	m := newTeam(t, f, "platform")
	c := f.Managed[0]
	m.version(t, "1.21")
	enabled(t, f, []api.Component{api.Serving}, c)
	eventually(t, "the fleet's resource is Ready", 2*time.Minute, m.checkFleetReady(metav1.ConditionTrue, ""))

	t.Run("the fleet configuration is not Ready before a stopped cluster has the version", func(t *testing.T) { stopBeforeVersion(t, m, c) })
	t.Run("a version that did not run cannot be skipped", func(t *testing.T) { skipVersion(t, m, c) })
	t.Run("a version that is entered again runs its Jobs again", func(t *testing.T) { enterVersionTwice(t, m, c) })
	t.Run("a Job that cannot finish is replaced when its spec is corrected", func(t *testing.T) { correctJob(t, m, c) })
}

// version sets the version of the fleet's resource.
func (m team) version(t *testing.T, version string) {
	t.Helper()
	m.patchDefault(t, fmt.Sprintf(`{"spec":{"version":%q}}`, version))
}

// checkFleetReady reports whether Ready of the fleet's resource, for its present spec, has the status and names the text.
func (m team) checkFleetReady(want metav1.ConditionStatus, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := m.readDefault(ctx)
		if err != nil {
			return err
		}
		observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, o := range conditions {
			ready, ok := o.(map[string]any)
			if message, _ := ready["message"].(string); ok && ready["type"] == api.Ready && ready["status"] == string(want) &&
				strings.Contains(message, text) && observed == u.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("generation %d of %d has conditions %v", observed, u.GetGeneration(), conditions)
	}
}

func stopBeforeVersion(t *testing.T, m team, c *lab.Cluster) {
	if err := m.Stop(c.Name + "-agent"); err != nil {
		t.Fatal(err)
	}
	m.version(t, "1.22")
	eventually(t, "version 1.22 is written to the works", time.Minute, m.checkFoundation(c, "1.22."))
	eventually(t, "the fleet's resource names the cluster that lacks the version", 30*time.Second, m.checkFleetReady(metav1.ConditionUnknown, c.Name))
}

// checkFoundation reports whether the foundation of a cluster carries a version with the prefix.
func (m team) checkFoundation(c *lab.Cluster, prefix string) func(context.Context) error {
	return func(ctx context.Context) error {
		w, err := m.Works.WorkV1().ManifestWorks(c.Name).Get(ctx, manifestwork.FoundationName(api.Serving), metav1.GetOptions{})
		if err == nil && !strings.HasPrefix(w.Annotations[api.VersionAnnotation], prefix) {
			err = fmt.Errorf("annotations are %v", w.Annotations)
		}
		return err
	}
}

func skipVersion(t *testing.T, m team, c *lab.Cluster) {
	s := connect(t, c)
	m.version(t, "1.23")
	eventually(t, "the step over 1.22 is refused", time.Minute, func(ctx context.Context) error {
		return errors.Join(checkEligibility(ctx, m.Fleet, c.Name, metav1.ConditionFalse, "1.21.3"), checkEligibility(ctx, m.Fleet, c.Name, metav1.ConditionFalse, "1.22.1"))
	})
	m.back(t, c)
	eventually(t, "the agent has applied the foundation", 2*time.Minute, func(ctx context.Context) error {
		w, err := m.Works.WorkV1().ManifestWorks(c.Name).Get(ctx, manifestwork.FoundationName(api.Serving), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if applied, why := manifestwork.Applied(w); !applied {
			return errors.New(why)
		}
		return errors.Join(m.checkFoundation(c, "1.22.")(ctx), checkEligibility(ctx, m.Fleet, c.Name, metav1.ConditionFalse, "1.22.1"), s.runs("1.21.")(ctx))
	})
	m.version(t, "1.22")
	eventually(t, "the cluster runs 1.22, with the Jobs of 1.22", 3*time.Minute, s.ranJobs("1.22."))
	m.awaitRecordedVersion(t)
	m.version(t, "1.23")
	eventually(t, "the cluster runs 1.23, with the Jobs of 1.23", 3*time.Minute, s.ranJobs("1.23."))
	eventually(t, "the fleet's resource is Ready", 2*time.Minute, m.checkFleetReady(metav1.ConditionTrue, ""))
}

// awaitRecordedVersion waits until the fleet's resource is Ready: the agent has reported, and recorded what the agent applied. A work agent
// does not record a payload that the hub replaces while the agent applies the payload, so that a Job of the payload would stay.
func (m team) awaitRecordedVersion(t *testing.T) {
	t.Helper()
	eventually(t, "the fleet's resource is Ready", 2*time.Minute, m.checkFleetReady(metav1.ConditionTrue, ""))
}

// ranJobs reports whether Serving runs a version with the prefix, and every Job on the cluster is of that version and complete.
func (s spoke) ranJobs(prefix string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.runs(prefix)(ctx); err != nil {
			return err
		}
		jobs, err := s.kube.BatchV1().Jobs("knative-serving").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(jobs.Items) == 0 {
			return errors.New("there are no Jobs")
		}
		for _, job := range jobs.Items {
			if !strings.Contains(job.Name, strings.TrimSuffix(prefix, ".")) || !isComplete(&job) {
				return fmt.Errorf("Job %s has status %+v", job.Name, job.Status)
			}
		}
		return nil
	}
}

func isComplete(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobComplete {
			return true
		}
	}
	return false
}

func enterVersionTwice(t *testing.T, m team, c *lab.Cluster) {
	s := connect(t, c)
	background := metav1.DeletePropagationBackground
	err := s.kube.BatchV1().Jobs("knative-serving").DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hub has recorded the finished Jobs", 2*time.Minute, func(ctx context.Context) error {
		w, err := m.Works.WorkV1().ManifestWorks(c.Name).Get(ctx, manifestwork.FoundationName(api.Serving), metav1.GetOptions{})
		if err == nil && !strings.Contains(w.Annotations[api.FinishedJobsAnnotation], "1.23") {
			err = fmt.Errorf("annotations are %v", w.Annotations)
		}
		return err
	})
	m.awaitRecordedVersion(t)
	m.version(t, "1.22")
	eventually(t, "the cluster runs 1.22 again, with the Jobs of 1.22", 3*time.Minute, s.ranJobs("1.22."))
	m.awaitRecordedVersion(t)
	m.version(t, "1.23")
	eventually(t, "the cluster runs 1.23 again, with the Jobs of 1.23", 3*time.Minute, s.ranJobs("1.23."))
	available(t, m.Fleet, []api.Component{api.Serving}, c)
}

// correctJob enters a version with a Job whose pod no node takes. The work agent never changes a Job, so that the manager has to replace the Job
// when the override of the Job is gone.
func correctJob(t *testing.T, m team, c *lab.Cluster) {
	s := connect(t, c)
	m.patchDefault(t, `{"spec":{"version":"1.22","workloads":[{"name":"storage-version-migration-serving-","nodeSelector":{"disk":"none"}}]}}`)
	var stuck batchv1.Job
	eventually(t, "the cluster has the Job that cannot finish", 3*time.Minute, func(ctx context.Context) error {
		jobs, err := s.kube.BatchV1().Jobs("knative-serving").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(jobs.Items, func(job batchv1.Job) bool { return job.Spec.Template.Spec.NodeSelector["disk"] == "none" })
		if i < 0 {
			return errors.New("no Job has the node selector")
		}
		stuck = jobs.Items[i]
		return nil
	})
	eventually(t, "the fleet's resource names the cluster that waits for the Job", 2*time.Minute, m.checkFleetReady(metav1.ConditionUnknown, c.Name))
	m.patchDefault(t, `{"spec":{"workloads":null}}`)
	eventually(t, "the cluster runs 1.22, and another Job is complete", 3*time.Minute, func(ctx context.Context) error {
		job, err := s.kube.BatchV1().Jobs(stuck.Namespace).Get(ctx, stuck.Name, metav1.GetOptions{})
		if err == nil && (job.UID == stuck.UID || !isComplete(job)) {
			err = fmt.Errorf("Job %s has node selector %v and status %+v", job.Name, job.Spec.Template.Spec.NodeSelector, job.Status)
		}
		return errors.Join(err, s.runs("1.22.")(ctx))
	})
	m.awaitRecordedVersion(t)
}
