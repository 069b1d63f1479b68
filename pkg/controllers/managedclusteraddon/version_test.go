// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// TestRecordRunningVersion holds when the foundation gets the version that the cluster runs, also while the configuration asks for
// a version that the cluster must not go to yet.
func TestRecordRunningVersion(t *testing.T) {
	tooFar := func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: api.ReasonNotEligible, Message: "a version is skipped"}
	}
	for name, tc := range map[string]struct {
		reason    string
		available int64
		change    func(h *fakeHub)
		want      bool
	}{
		"the version runs":           {reason: "The next version may come.", available: 1, want: true},
		"the next version is wanted": {reason: "The refusal ends.", available: 1, change: func(h *fakeHub) { h.bundles = tooFar }, want: true},
		"a pod is missing":           {reason: "The version does not run yet."},
		"the record is there":        {reason: "Nothing is written at rest.", available: 1, change: func(h *fakeHub) { h.works[0].Annotations[api.RunningVersionAnnotation] = "1.23.0" }},
		"the agent has not applied it": {
			reason: "The report is about the version before.", available: 1, change: func(h *fakeHub) { h.works[1].Generation = 2 },
		},
		"a Job has not completed": {
			reason: "The Job migrates what is stored.", available: 1, change: func(h *fakeHub) {
				h.works[1].Status.ResourceStatus.Manifests = append(h.works[1].Status.ResourceStatus.Manifests, workv1.ManifestCondition{
					ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: "knative-serving", Name: "migrate"},
				})
			},
		},
		"paused": {reason: "The works stay as they are.", available: 1, change: func(h *fakeHub) { h.isPaused() }},
	} {
		t.Run(name, func(t *testing.T) {
			h := delivered(t, tc.available)
			h.works[0].Annotations[api.RunningVersionAnnotation] = "1.22.1"
			if tc.change != nil {
				tc.change(h)
			}
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			got := slices.ContainsFunc(h.actions, func(a string) bool { return strings.HasPrefix(a, "patch manifestworks/knative-serving-foundation") })
			if got != tc.want {
				t.Errorf("%s The record is written: %t, by %q", tc.reason, got, h.actions)
			}
		})
	}
}

// TestReturnToRunningVersion holds that a cluster which goes back from a version that was delivered in part does not count as running the
// former version before the cluster runs that version again: the next step could otherwise skip a minor version.
func TestReturnToRunningVersion(t *testing.T) {
	h := delivered(t, 1).wants("h2")
	foundation := h.foundation()
	foundation.Annotations[api.DigestAnnotation], foundation.Annotations[api.VersionAnnotation] = "f0", "1.24.0"
	foundation.Annotations[api.RunningVersionAnnotation] = "1.23.0"
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	stored := h.storedWork(t, foundation.Name).Annotations
	if stored[api.VersionAnnotation] != "1.23.0" || stored[api.RunningVersionAnnotation] != "1.24.0" {
		t.Errorf("version %s is delivered, and %s counts as running", stored[api.VersionAnnotation], stored[api.RunningVersionAnnotation])
	}
}

// TestFinishedJobsOfVersion holds that a version which is entered again runs its Jobs again.
func TestFinishedJobsOfVersion(t *testing.T) {
	bundle := &render.Bundle{Jobs: []workload.JobRef{{Namespace: "knative-serving", Name: "migrate-1.23.0"}}}
	s := &scope{component: api.Serving, foundation: foundationWork(), payloads: []*workv1.ManifestWork{payload()}}
	s.payloads[0].Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{ // an old report, of another payload
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: "knative-serving", Name: "migrate-1.23.0"},
		Conditions: []metav1.Condition{
			{Type: workv1.ManifestComplete, Status: metav1.ConditionTrue}, {Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"},
		},
	}}
	for recorded, want := range map[string][]string{
		"knative-serving/migrate-1.22.1":                                {},
		"knative-serving/migrate-1.22.1,knative-serving/migrate-1.23.0": {"knative-serving/migrate-1.23.0"},
	} {
		s.foundation.Annotations[api.FinishedJobsAnnotation] = recorded
		if diff := cmp.Diff(want, s.finishedJobs(bundle)); diff != "" {
			t.Errorf("finished Jobs after %q (-want +got):\n%s", recorded, diff)
		}
	}
}
