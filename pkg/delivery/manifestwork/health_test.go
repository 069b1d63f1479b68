// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

func TestRuns(t *testing.T) {
	rolledOut := map[string]int64{
		generationValue: 2, observedValue: 2, desiredValue: 1, totalValue: 1, updatedValue: 1, availableValue: 1,
	}
	stuck := map[string]int64{
		generationValue: 2, observedValue: 2, desiredValue: 1, totalValue: 2, updatedValue: 1, availableValue: 1,
	}
	complete := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: "cleanup"},
		Conditions:   []metav1.Condition{{Type: jobFinishedCondition, Status: metav1.ConditionTrue}},
	}
	for name, tc := range map[string]struct {
		reason  string
		payload func(b *render.Bundle) []workv1.ManifestCondition
		want    bool
	}{
		"everything runs": {
			reason: "There is nothing more to wait for.", want: true,
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), complete, looked(b)}
			},
		},
		"old pods serve": {
			reason: "The Deployment is Available, and its new pods are not.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", stuck), complete, looked(b)}
			},
		},
		"the Job is running": {
			reason: "It may fail.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), looked(b)}
			},
		},
		"an object was refused": {
			reason: "The cluster does not have what it should.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), complete, looked(b), notApplied("ConfigMap", ns, "config", "denied")}
			},
		},
		"what was there before ran": {
			reason: "The agent has not looked since it has applied the bundle.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), complete}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			b.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook"}}
			b.Jobs = []workload.JobRef{{Namespace: ns, Name: "cleanup"}}
			d := deliver(t, b)
			report(d.payloads[0], tc.payload(b)...)
			if got := Runs(b, d.foundation, d.payloads); got != tc.want {
				t.Errorf("%s Runs is %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

// TestAreAvailable holds the share of pods that Kubernetes demands of a Deployment, and which reports of the agent count.
func TestAreAvailable(t *testing.T) {
	pods := func(desired, available int64) workv1.ManifestCondition {
		return deploymentStatus("webhook", map[string]int64{generationValue: 1, observedValue: 1, desiredValue: desired, availableValue: available})
	}
	gone := pods(1, 1)
	gone.Conditions = []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"}}
	const reported, outdated = 1, 2 // generations of the work
	for name, tc := range map[string]struct {
		manifest      workv1.ManifestCondition
		generation    int64
		available, ok bool
	}{
		"one of one":         {pods(1, 1), reported, true, true},
		"none of one":        {pods(1, 0), reported, false, true},
		"two of three":       {pods(3, 2), reported, false, true},
		"three of four":      {pods(4, 3), reported, true, true},
		"three of five":      {pods(5, 3), reported, false, true},
		"no pod is expected": {pods(0, 0), reported, true, true},
		"no Deployment":      {gone, reported, false, true},
		"another kind":       {notApplied("ConfigMap", ns, "config", "denied"), reported, true, true},
		"an earlier report":  {pods(1, 0), outdated, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: tc.generation}}
			w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkAvailable, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
			w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{tc.manifest}
			if available, ok := AreAvailable([]*workv1.ManifestWork{w}); available != tc.available || ok != tc.ok {
				t.Errorf("the workloads are available: %t (%t), want %t (%t)", available, ok, tc.available, tc.ok)
			}
		})
	}
	if available, ok := AreAvailable(nil); !available || ok {
		t.Errorf("no payload: %t (%t)", available, ok)
	}
}

func TestHealth(t *testing.T) {
	running := map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 1, totalValue: 1, updatedValue: 1, availableValue: 1}
	starting := map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 1, totalValue: 1, updatedValue: 1}
	lost := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Namespace: ns, Name: "config"}, Conditions: []metav1.Condition{gone},
	}
	removedJob := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: "cleanup"}, Conditions: []metav1.Condition{gone},
	}
	for name, tc := range map[string]struct {
		reason  string
		payload func(b *render.Bundle) []workv1.ManifestCondition
		want    []string
		unseen  bool
	}{
		"runs": {
			reason: "There is nothing to say.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", running), looked(b)}
			},
		},
		"a Job was removed": {
			reason: "It goes when it has finished.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", running), removedJob}
			},
		},
		"pods are starting": {
			reason: "The message names what is waited for.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", starting)}
			},
			want: []string{"Deployment " + ns + "/webhook: 0 of 1 pods are available"},
		},
		"a ConfigMap is gone": {
			reason: "Knative does not work without its objects.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", running), lost}
			},
			want: []string{"ConfigMap " + ns + "/config: the object is gone"},
		},
		"nothing is reported": {
			reason: "It is not known to be bad.", payload: func(*render.Bundle) []workv1.ManifestCondition { return nil },
			want: []string{"Deployment " + ns + "/webhook: not seen yet"}, unseen: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			b.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook"}}
			d := deliver(t, b)
			report(d.payloads[0], tc.payload(b)...)
			got, ok := Health(b.Workloads, d.payloads)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok == tc.unseen {
				t.Errorf("%s Something was seen: %v (-want +got):\n%s", tc.reason, ok, diff)
			}
		})
	}
}
