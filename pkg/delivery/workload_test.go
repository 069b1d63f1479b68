// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

func TestNotRolledOut(t *testing.T) {
	key := WorkloadKey{Kind: "Deployment", Namespace: "knative-serving", Name: "activator"}
	expected := []workload.Expected{{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}}
	for name, tc := range map[string]struct {
		reason string
		seen   []WorkloadState
		want   []string
	}{
		"done": {
			reason: "All pods are of the newest template and available.",
			seen:   []WorkloadState{{WorkloadKey: key, State: workload.State{Generation: 2, ObservedGeneration: 2, Desired: 3, Total: 3, Updated: 3, Available: 3}}},
		},
		"scaled to zero": {
			reason: "No pods are what the spec says.",
			seen:   []WorkloadState{{WorkloadKey: key, State: workload.State{Generation: 2, ObservedGeneration: 2}}},
		},
		"not reported": {
			reason: "A workload that nobody has seen is not healthy.",
			want:   []string{"Deployment knative-serving/activator: not seen yet"},
		},
		"another one reported": {
			reason: "A StatefulSet of the same name is another workload.",
			seen:   []WorkloadState{{WorkloadKey: WorkloadKey{Kind: "StatefulSet", Namespace: key.Namespace, Name: key.Name}}},
			want:   []string{"Deployment knative-serving/activator: not seen yet"},
		},
		"generation not observed": {
			reason: "Counts of before the last change say nothing.",
			seen:   []WorkloadState{{WorkloadKey: key, State: workload.State{Generation: 3, ObservedGeneration: 2, Desired: 1, Total: 1, Updated: 1, Available: 1}}},
			want:   []string{"Deployment knative-serving/activator: its last change is not observed yet"},
		},
		"old pods serve": {
			reason: "Available pods of the old template do not make the new one rolled out.",
			seen:   []WorkloadState{{WorkloadKey: key, State: workload.State{Generation: 3, ObservedGeneration: 3, Desired: 2, Total: 2, Updated: 1, Available: 2}}},
			want:   []string{"Deployment knative-serving/activator: 1 of 2 pods are updated"},
		},
		"old pods left": {
			reason: "The rollout ends when the last old pod is gone.",
			seen:   []WorkloadState{{WorkloadKey: key, State: workload.State{Generation: 3, ObservedGeneration: 3, Desired: 2, Total: 3, Updated: 2, Available: 3}}},
			want:   []string{"Deployment knative-serving/activator: 1 old pods are still there"},
		},
		"not available": {
			reason: "Updated pods must be available.",
			seen:   []WorkloadState{{WorkloadKey: key, State: workload.State{Generation: 3, ObservedGeneration: 3, Desired: 2, Total: 2, Updated: 2, Available: 1}}},
			want:   []string{"Deployment knative-serving/activator: 1 of 2 pods are available"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, NotRolledOut(expected, tc.seen)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNotRolledOutIsSorted(t *testing.T) {
	got := NotRolledOut([]workload.Expected{
		{Kind: "StatefulSet", Namespace: "a", Name: "z"}, {Kind: "Deployment", Namespace: "b", Name: "y"}, {Kind: "Deployment", Namespace: "a", Name: "x"},
	}, nil)
	want := []string{"Deployment a/x: not seen yet", "Deployment b/y: not seen yet", "StatefulSet a/z: not seen yet"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages must be stable (-want +got):\n%s", diff)
	}
}

func TestListed(t *testing.T) {
	for want, names := range map[string][]string{
		"":                         nil,
		"a, b, c, d, e":            {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := Listed(names); got != want {
			t.Errorf("%q is told as %q, want %q", names, got, want)
		}
	}
}
