// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// peerAuthentication is an object of a kind that the cluster of the tests does not serve.
const peerAuthentication = "security.istio.io/v1beta1/PeerAuthentication " + ns + "/webhook"

// jobBundle returns the bundle of the test with that image of the Job, and with further objects.
func jobBundle(t *testing.T, image string, further ...string) *render.Bundle {
	t.Helper()
	b := bundle(t)
	job := &b.Payload[1]
	if err := unstructured.SetNestedField(job.Object, image, "spec", "image"); err != nil {
		t.Fatal(err)
	}
	job.JSON = encodeJSON(job.Unstructured)
	for _, o := range further {
		b.Payload = append(b.Payload, describedObject(t, o))
	}
	b.Digest = image + strings.Join(further, "")
	return b
}

// playedAgent plays the hub and the work agent for one payload. Like OCM's agent, the agent deletes only objects that the agent has recorded, and
// records objects only if the cluster serves all kinds of the payload.
type playedAgent struct {
	t    *testing.T
	work *workv1.ManifestWork
	// job is the image of the Job of the cluster; empty without a Job.
	job string
	// recorded reports whether the agent has recorded the Job, finished whether the Job of the cluster has finished.
	recorded, finished bool
}

// write writes the next payload as addon-framework does, and returns the description of the payload.
func (a *playedAgent) write(b *render.Bundle) string {
	a.t.Helper()
	payloads := []*workv1.ManifestWork{a.work}
	if a.work.Generation == 0 {
		payloads = nil
	}
	objects, err := NextPayload(payloads, b, installed())
	if err != nil {
		a.t.Fatal(err)
	}
	written := &workv1.ManifestWork{}
	for _, o := range objects {
		manifest := workv1.Manifest{}
		manifest.Raw = encodeJSON(o.(*unstructured.Unstructured)) //nolint:forcetypeassert // of NextPayload
		written.Spec.Workload.Manifests = append(written.Spec.Workload.Manifests, manifest)
	}
	if !cmp.Equal(a.work.Spec, written.Spec) {
		a.work.Spec = written.Spec
		a.work.Generation++
	}
	if !MatchNextPayload([]*workv1.ManifestWork{a.work}, b, installed()) {
		a.t.Error("the written payload is written again, as long as the agent does not report")
	}
	return a.describe(b)
}

// describe returns, sorted, the image of the Job, the kinds of objects that the bundle of the test lacks, and "mark" for the mark of the bundle.
func (a *playedAgent) describe(b *render.Bundle) string {
	var out []string
	for _, u := range a.objects() {
		switch {
		case u.GetKind() == "Job":
			out = append(out, imageOf(u))
		case isBundleMark(b.Component, u):
			out = append(out, "mark")
		case u.GetName() != "config-leader-election":
			out = append(out, u.GetKind())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (a *playedAgent) objects() []*unstructured.Unstructured {
	a.t.Helper()
	objects, err := manifestsOf(a.work)
	if err != nil {
		a.t.Fatal(err)
	}
	return objects
}

func imageOf(job *unstructured.Unstructured) string {
	image, _, _ := unstructured.NestedString(job.Object, "spec", "image")
	return image
}

// apply applies the payload and reports.
func (a *playedAgent) apply() {
	a.t.Helper()
	a.work.Status = workv1.ManifestWorkStatus{Conditions: []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: a.work.Generation},
	}}
	wanted, servesAll := "", true
	for _, u := range a.objects() {
		report := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Group: u.GroupVersionKind().Group, Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(),
		}}
		switch u.GetKind() {
		case "PeerAuthentication":
			servesAll = false
			report.Conditions = []metav1.Condition{{
				Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: fmt.Sprintf("the server doesn't have a resource type %q", u.GetKind()),
			}}
		case "Job":
			wanted = imageOf(u)
			if a.job == "" {
				a.job = wanted
			}
			report.Conditions = []metav1.Condition{{Type: jobFinishedCondition, Status: metav1.ConditionFalse}}
			if a.finished {
				report.Conditions[0].Status = metav1.ConditionTrue
			}
		}
		a.work.Status.ResourceStatus.Manifests = append(a.work.Status.ResourceStatus.Manifests, report)
	}
	if !servesAll {
		return
	}
	if wanted == "" && a.recorded {
		a.job = ""
	}
	a.recorded = wanted != ""
}

// TestReplacedJobs corrects the image of a Job that cannot finish: the cluster gets the changed Job, and the payload of the last bundle.
func TestReplacedJobs(t *testing.T) {
	const apply = "apply"
	wrong, right, last := jobBundle(t, "wrong"), jobBundle(t, "right"), jobBundle(t, "last")
	for name, steps := range map[string][]struct {
		do   any // apply, or a bundle that is written
		want string
	}{
		"a running Job without a change": {{wrong, "mark wrong"}, {apply, ""}, {wrong, "mark wrong"}},
		"a Job that cannot finish":       {{wrong, "mark wrong"}, {apply, ""}, {right, ""}, {apply, ""}, {right, "mark right"}},
		"another change before the apply": {
			{wrong, "mark wrong"}, {apply, ""}, {right, ""}, {last, ""}, {apply, ""}, {last, "last mark"},
		},
		"a change before the first report": {
			{wrong, "mark wrong"}, {right, "wrong"}, {apply, ""}, {right, ""}, {apply, ""}, {right, "mark right"},
		},
		"the change returns": {{wrong, "mark wrong"}, {apply, ""}, {right, ""}, {wrong, ""}, {apply, ""}, {wrong, "mark wrong"}},
		"an object of an unserved kind stays": {
			{jobBundle(t, "wrong", peerAuthentication), "PeerAuthentication mark wrong"},
			{apply, ""},
			{jobBundle(t, "right", peerAuthentication), "wrong"},
			{apply, ""},
			{jobBundle(t, "right", peerAuthentication), ""},
			{apply, ""},
			{jobBundle(t, "right", peerAuthentication), "PeerAuthentication mark right"},
		},
		"an object of an unserved kind comes": {
			{wrong, "mark wrong"},
			{apply, ""},
			{jobBundle(t, "right", peerAuthentication), ""},
			{apply, ""},
			{jobBundle(t, "right", peerAuthentication), "PeerAuthentication mark right"},
		},
		"an object of an unserved kind leaves": {
			{jobBundle(t, "wrong", peerAuthentication), "PeerAuthentication mark wrong"},
			{apply, ""},
			{right, "wrong"},
			{apply, ""},
			{right, ""},
			{apply, ""},
			{right, "mark right"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := playedAgent{t: t, work: &workv1.ManifestWork{}}
			for i, step := range steps {
				b, isBundle := step.do.(*render.Bundle)
				if !isBundle {
					a.apply()
				} else if got := a.write(b); got != step.want {
					t.Fatalf("step %d: the payload has %q, want %q", i, got, step.want)
				}
			}
			a.apply()
			if want := imageOf(a.objects()[1]); a.job != want {
				t.Errorf("the Job of the cluster has image %q, the payload %q", a.job, want)
			}
		})
	}
}

// TestFinishedJobIsKept changes a Job that has finished.
func TestFinishedJobIsKept(t *testing.T) {
	a := playedAgent{t: t, work: &workv1.ManifestWork{}, finished: true}
	a.write(jobBundle(t, "former"))
	a.apply()
	if got, want := a.write(jobBundle(t, "other")), "mark other"; got != want {
		t.Errorf("the payload has %q, want %q", got, want)
	}
}

// TestReplacedJobInSplitPayload holds that a Job that one of two works has lost does not return before the agent has applied that work, although the
// other work still has the mark of the former bundle.
func TestReplacedJobInSplitPayload(t *testing.T) {
	former := jobBundle(t, "wrong")
	a := playedAgent{t: t, work: &workv1.ManifestWork{}}
	a.write(former)
	a.apply()
	marked := a.work.DeepCopy()
	a.work.Spec.Workload.Manifests, marked.Spec.Workload.Manifests = a.work.Spec.Workload.Manifests[:1], marked.Spec.Workload.Manifests[2:]
	a.work.Generation++
	objects, err := NextPayload([]*workv1.ManifestWork{a.work, marked}, jobBundle(t, "right"), installed())
	if err != nil || len(objects) != 1 {
		t.Errorf("the next payload has %v, error %v; want only the ConfigMap", objects, err)
	}
}

// TestAwaitedPayload holds that the message about an intermediate payload names the work that the agent has to apply.
func TestAwaitedPayload(t *testing.T) {
	wrong, right := jobBundle(t, "wrong"), jobBundle(t, "right")
	a := playedAgent{t: t, work: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "payload"}}}
	a.write(wrong)
	a.write(right)
	payloads := []*workv1.ManifestWork{a.work}
	if got, want := AwaitedPayload(payloads, right, installed()), `waiting for the work agent to apply ManifestWork "payload" before the manifests change`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	a.apply()
	if got, want := AwaitedPayload(payloads, right, installed()), "waiting for the ManifestWork of the payload to be written"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
