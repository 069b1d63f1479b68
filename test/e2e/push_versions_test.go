// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// noJobPods is a policy that refuses the pods of Jobs.
const noJobPods = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-job-pods}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
  - {expression: "!('` + batchv1.JobNameLabel + `' in object.metadata.?labels.orValue({}))", message: no pods of Jobs}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-job-pods}
spec: {policyName: no-job-pods, validationActions: [Deny]}
`

// skipFailedVersion has a Job of a version fail. The next minor version is refused until another Job has completed.
func (l directCluster) skipFailedVersion(t *testing.T) {
	w := way{push: l.push, spoke: l.spoke}
	l.refuseJobPods(t, w)
	w.spec(t, map[string]any{"version": "1.22"})
	w.shows(t, verdicts{api.DeploymentsAvailable: "False " + api.ReasonWorkloadsNotReady}, "1.22", "the Job has not completed yet")
	if err := l.runs("1.22.")(t.Context()); err != nil {
		t.Error(err)
	}
	job := l.failJob(t)
	w.shows(t, verdicts{api.DeploymentsAvailable: "False " + api.ReasonWorkloadsNotReady}, "Job knative-serving/"+job, "failed")

	w.spec(t, map[string]any{"version": "1.21"})
	refused := unrendered(api.ReasonNotEligible)
	refused[api.VersionMigrationEligible] = "False " + api.ReasonNotEligible
	refused[api.DeploymentsAvailable] = "False " + api.ReasonWorkloadsNotReady
	w.shows(t, refused, "from version 1.23.0 to 1.21", "version 1.22.1, which was delivered since, has not run yet")
	if err := l.runs("1.22.")(t.Context()); err != nil {
		t.Error(err)
	}

	w.spec(t, map[string]any{"version": "1.22"})
	w.kubectl(t, noJobPods, "delete")
	l.deleteJobs(t)
	eventually(t, "the cluster runs 1.22, with the Jobs of 1.22", 3*time.Minute, l.ranJobs("1.22."))
	l.ready(t, api.Serving, l.Name)
	w.spec(t, map[string]any{"version": "1.21"})
	eventually(t, "the cluster runs 1.21, with the Jobs of 1.21", 3*time.Minute, l.ranJobs("1.21."))
	l.ready(t, api.Serving, l.Name)
}

// refuseJobPods has the cluster refuse the pods of Jobs, and waits until the policy is in force.
func (l directCluster) refuseJobPods(t *testing.T, w way) {
	t.Helper()
	w.kubectl(t, noJobPods, "apply")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "of-a-job", Labels: map[string]string{batchv1.JobNameLabel: "job"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i"}}},
	}
	eventually(t, "the policy is in force", time.Minute, func(ctx context.Context) error {
		_, err := l.kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "no pods of Jobs") {
			return fmt.Errorf("the API server says: %v", err) //nolint:errorlint // the error may be nil
		}
		return nil
	})
}

// listIncompleteJobs lists the names of the Jobs of Serving that have not completed.
func (l directCluster) listIncompleteJobs(t *testing.T) []string {
	t.Helper()
	list, err := l.kube.BatchV1().Jobs("knative-serving").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		if !isComplete(&list.Items[i]) {
			out = append(out, list.Items[i].Name)
		}
	}
	if len(out) == 0 {
		t.Fatal("every Job has completed")
	}
	return out
}

// deleteJobs deletes the Jobs that have not completed.
func (l directCluster) deleteJobs(t *testing.T) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	for _, name := range l.listIncompleteJobs(t) {
		if err := l.kube.BatchV1().Jobs("knative-serving").Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Fatal(err)
		}
	}
}

// failJob gives a Job that has not completed a deadline, waits until the Job has failed, and returns its name.
func (l directCluster) failJob(t *testing.T) string {
	t.Helper()
	jobs, name := l.kube.BatchV1().Jobs("knative-serving"), l.listIncompleteJobs(t)[0]
	patch := []byte(`{"spec":{"activeDeadlineSeconds":1}}`)
	if _, err := jobs.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Job "+name+" has failed", time.Minute, func(ctx context.Context) error {
		job, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("the Job has no condition Failed")
	})
	return name
}
