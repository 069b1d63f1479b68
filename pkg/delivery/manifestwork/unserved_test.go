// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestNextPayload moves from an ingress whose kinds the cluster lacks to the bundle of the test.
func TestNextPayload(t *testing.T) {
	const (
		controller, policy = "apps/v1/Deployment " + ns + "/net-istio-controller", "security.istio.io/v1beta1/PeerAuthentication " + ns + "/webhook"
		config, job        = "v1/ConfigMap " + ns + "/config-leader-election", "batch/v1/Job " + ns + "/cleanup"
		formerJob          = "batch/v1/Job " + ns + "/cleanup-1.22"
		newMark            = "v1/ConfigMap " + ns + "/knative-serving-bundle-d1"
		formerMark         = "v1/ConfigMap " + ns + "/knative-serving-bundle-d0"
	)
	unserved := notApplied("PeerAuthentication", ns, "webhook", `the server doesn't have a resource type "PeerAuthentication"`)
	unserved.ResourceMeta.Group = "security.istio.io"
	desired := []string{config, job, newMark}
	for name, tc := range map[string]struct {
		reason      string
		present     []string
		reports     []workv1.ManifestCondition
		alsoDesired string
		removedJobs string
		want        []string
	}{
		"no payload": {reason: "Nothing leaves.", want: desired},
		"all kinds are served": {
			reason: "The agent has recorded the objects.", present: []string{config, controller, formerMark}, want: desired,
		},
		"an object of a served kind leaves": {
			reason: "The agent has not recorded the Deployment.", reports: []workv1.ManifestCondition{unserved},
			present: []string{config, controller, policy, formerMark}, want: []string{config, job, controller},
		},
		"only objects of unserved kinds leave": {
			reason: "These do not exist on the cluster.", reports: []workv1.ManifestCondition{unserved},
			present: []string{config, policy, formerMark}, want: desired,
		},
		"the bundle has the kind too": {
			reason: "The agent would not record anything.", reports: []workv1.ManifestCondition{unserved}, alsoDesired: policy,
			present: []string{config, controller, policy}, want: []string{config, job, controller},
		},
		"nothing leaves": {
			reason: "The report on the missing kind stays.", reports: []workv1.ManifestCondition{unserved}, alsoDesired: policy,
			present: []string{config, policy}, want: []string{config, job, policy, newMark},
		},
		"a removed Job of the former bundle": {
			reason: "The Job would run again.", reports: []workv1.ManifestCondition{unserved}, removedJobs: ns + "/cleanup-1.22",
			present: []string{config, formerJob, policy}, want: desired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, f, p := bundle(t), installed(), &workv1.ManifestWork{}
			if tc.alsoDesired != "" {
				b.Payload = append(b.Payload, describedObject(t, tc.alsoDesired))
			}
			if tc.removedJobs != "" {
				f.Annotations = map[string]string{api.FinishedJobsAnnotation: tc.removedJobs}
			}
			for _, o := range tc.present {
				manifest := workv1.Manifest{}
				manifest.Raw = describedObject(t, o).JSON
				p.Spec.Workload.Manifests = append(p.Spec.Workload.Manifests, manifest)
			}
			p.Status.ResourceStatus.Manifests = tc.reports
			p.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionFalse}}
			objects, err := NextPayload([]*workv1.ManifestWork{p}, b, f)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				u := o.(*unstructured.Unstructured) //nolint:forcetypeassert // of NextPayload
				got = append(got, u.GetAPIVersion()+"/"+u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			checkMatch(t, p, objects, b, f)
		})
	}
}

// checkMatch holds that a payload with the objects counts as written, before the agent reports, and no payload with fewer objects.
func checkMatch(t *testing.T, p *workv1.ManifestWork, objects []runtime.Object, b *render.Bundle, foundation *workv1.ManifestWork) {
	t.Helper()
	p.Spec.Workload.Manifests = nil
	for _, o := range objects {
		if MatchNextPayload([]*workv1.ManifestWork{p}, b, foundation) {
			t.Errorf("without %v a payload counts as written", o)
		}
		manifest := workv1.Manifest{}
		manifest.Raw = encodeJSON(o.(*unstructured.Unstructured)) //nolint:forcetypeassert // of NextPayload
		p.Spec.Workload.Manifests = append(p.Spec.Workload.Manifests, manifest)
	}
	if !MatchNextPayload([]*workv1.ManifestWork{p}, b, foundation) {
		t.Error("the written payload is written again, as long as the agent does not report")
	}
}

// describedObject returns the object of a description such as "apps/v1/Deployment namespace/name".
func describedObject(t *testing.T, description string) render.Object {
	t.Helper()
	kind, name, _ := strings.Cut(description, " ")
	return object(t, kind, name, render.Object{Class: render.Apply})
}
