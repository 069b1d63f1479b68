// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// withJobImage returns the bundle of the test with that image of the Job.
func withJobImage(t *testing.T, image string) *render.Bundle {
	t.Helper()
	b := bundle(t)
	job := &b.Payload[1]
	if err := unstructured.SetNestedField(job.Object, image, "spec", "image"); err != nil {
		t.Fatal(err)
	}
	job.JSON = encodeJSON(job.Unstructured)
	b.Digest = "digest-of-" + image
	return b
}

// writeNextPayload writes what NextPayload returns into the work, and returns whether the written payload has the Job, and the mark of a bundle.
func writeNextPayload(t *testing.T, p *workv1.ManifestWork, b *render.Bundle) (hasJob, hasMark bool) {
	t.Helper()
	payloads := []*workv1.ManifestWork{p}
	if len(p.Spec.Workload.Manifests) == 0 {
		payloads = nil
	}
	objects, err := NextPayload(payloads, b, installed())
	if err != nil {
		t.Fatal(err)
	}
	written := &workv1.ManifestWork{}
	for _, o := range objects {
		u := o.(*unstructured.Unstructured) //nolint:forcetypeassert // of NextPayload
		manifest := workv1.Manifest{}
		manifest.Raw = encodeJSON(u)
		written.Spec.Workload.Manifests = append(written.Spec.Workload.Manifests, manifest)
		hasJob, hasMark = hasJob || u.GetKind() == "Job", hasMark || isBundleMark(b.Component, u)
	}
	if !cmp.Equal(p.Spec, written.Spec) {
		p.Spec = written.Spec
		p.Generation++
	}
	if !MatchNextPayload([]*workv1.ManifestWork{p}, b, installed()) {
		t.Error("the written payload is written again, as long as the agent does not report")
	}
	return hasJob, hasMark
}

// reportJob writes a report of the agent on the present generation: whether the work has the Job, and the Job has finished.
func reportJob(p *workv1.ManifestWork, hasJob bool, finished metav1.ConditionStatus) {
	p.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: p.Generation}}
	p.Status.ResourceStatus.Manifests = nil
	if hasJob {
		p.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: "cleanup"},
			Conditions: []metav1.Condition{
				{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue}, {Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue},
				{Type: jobFinishedCondition, Status: finished},
			},
		}}
	}
}

// TestReplacedJobs corrects the image of a Job that cannot finish: the agent deletes the Job before the changed Job comes.
func TestReplacedJobs(t *testing.T) {
	check := func(step string, p *workv1.ManifestWork, b *render.Bundle, wantJob, wantMark bool) {
		t.Helper()
		if job, mark := writeNextPayload(t, p, b); job != wantJob || mark != wantMark {
			t.Errorf("%s: the payload has the Job: %t, want %t; the mark of the bundle: %t, want %t", step, job, wantJob, mark, wantMark)
		}
	}
	wrong, corrected, last := withJobImage(t, "wrong"), withJobImage(t, "corrected"), withJobImage(t, "last")
	p := &workv1.ManifestWork{}
	check("installation", p, wrong, true, true)
	check("without a change, before the agent reports", p, wrong, true, true)
	reportJob(p, true, metav1.ConditionFalse)
	check("without a change, while the Job runs", p, wrong, true, true)
	check("the Job changes", p, corrected, false, false)
	check("before the agent has applied the payload without the Job", p, corrected, false, false)
	check("another change before the apply", p, last, false, false)
	reportJob(p, false, "")
	check("after the apply", p, last, true, true)
	reportJob(p, true, metav1.ConditionTrue)
	check("a finished Job changes", p, corrected, true, true)
}

// TestReplacedJobThatIsMissing changes a Job that the cluster lacks, or refused: nothing has to leave first.
func TestReplacedJobThatIsMissing(t *testing.T) {
	for name, condition := range map[string]metav1.Condition{
		"gone":    {Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"},
		"refused": {Type: workv1.ManifestApplied, Status: metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			p := &workv1.ManifestWork{}
			writeNextPayload(t, p, withJobImage(t, "wrong"))
			reportJob(p, true, metav1.ConditionFalse)
			p.Status.ResourceStatus.Manifests[0].Conditions = []metav1.Condition{condition}
			if hasJob, hasMark := writeNextPayload(t, p, withJobImage(t, "corrected")); !hasJob || !hasMark {
				t.Errorf("the payload has the Job: %t, and the mark of the bundle: %t; want both", hasJob, hasMark)
			}
		})
	}
}
