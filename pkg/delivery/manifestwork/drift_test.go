// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

func manifestStatus(kind, name string, conditions ...metav1.Condition) workv1.ManifestCondition {
	return workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Namespace: ns, Name: name}, Conditions: conditions}
}

func TestDrifted(t *testing.T) {
	fixed := []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook", Replicas: new(int32(1))}}
	scaled := []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook", ScaledBy: "HorizontalPodAutoscaler/webhook"}}
	other := []workload.Expected{{Kind: "StatefulSet", Namespace: ns, Name: "webhook", Replicas: new(int32(1))}}
	for name, tc := range map[string]struct {
		reason   string
		expected []workload.Expected
		status   workv1.ManifestCondition
		old      bool
		want     []string
	}{
		"as it should be": {reason: "Nothing has drifted.", expected: fixed, status: deploymentStatus("webhook", map[string]int64{generationValue: 1, desiredValue: 1})},
		"gone":            {reason: "Somebody has deleted it.", expected: fixed, status: deploymentStatus("webhook", nil, gone), want: []string{"Deployment " + ns + "/webhook is gone"}},
		"a Service is gone": {
			reason: "The agent would bring it back minutes later.", expected: fixed, status: manifestStatus("Service", "webhook", gone),
			want: []string{"Service " + ns + "/webhook is gone"},
		},
		"a Service is there": {reason: "Nothing has drifted.", expected: fixed, status: manifestStatus("Service", "webhook")},
		"a Job is gone":      {reason: "It has finished.", expected: fixed, status: manifestStatus("Job", "cleanup", gone)},
		"scaled to none": {
			reason: "The agent does not report what is 0.", expected: fixed, status: deploymentStatus("webhook", map[string]int64{generationValue: 2}),
			want: []string{"Deployment " + ns + "/webhook is scaled to 0 instead of 1"},
		},
		"scaled by its autoscaler": {reason: "The number is the cluster's own.", expected: scaled, status: deploymentStatus("webhook", map[string]int64{generationValue: 2, desiredValue: 7})},
		"not reported":             {reason: "Nobody knows.", expected: fixed, status: deploymentStatus("webhook", nil)},
		"another kind":             {reason: "It is no workload of the bundle.", expected: other, status: deploymentStatus("webhook", nil, gone)},
		"older generation":         {reason: "The agent is about to apply anyway.", expected: fixed, status: deploymentStatus("webhook", nil, gone), old: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			report(w, tc.status)
			if tc.old {
				w.Generation++
			}
			if diff := cmp.Diff(tc.want, Drifted(w, tc.expected)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
