// Copyright Contributors to the Open Cluster Management project

package status

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

const ns = "knative-serving"

var (
	resolved   = Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved}
	outOfSight = Finding{Status: metav1.ConditionFalse, Reason: api.ReasonManagedClusterUnavailable, Message: `ManagedCluster "c1" is unavailable`}
	revoked    = Finding{Status: metav1.ConditionFalse, Reason: api.ReasonReferenceNotPermitted, Message: "no set is bound"}
)

// bundle has three workloads and two Jobs.
func bundle() *render.Bundle {
	b := &render.Bundle{
		Component: api.Serving, Version: "1.23.0",
		Jobs: []workload.JobRef{{Namespace: ns, Name: "cleanup"}, {Namespace: ns, Name: "migration"}},
	}
	for _, name := range []string{"activator", "autoscaler", "webhook"} {
		b.Workloads = append(b.Workloads, workload.Expected{Kind: "Deployment", Namespace: ns, Name: name})
	}
	return b
}

// seenWell is the observation of a cluster on which everything of bundle is as it should be.
func seenWell() delivery.Observation {
	o := delivery.Observation{FinishedJobs: []workload.JobRef{{Namespace: ns, Name: "migration"}}}
	for _, w := range bundle().Workloads {
		o.Workloads = append(o.Workloads, delivery.WorkloadState{
			WorkloadKey: delivery.WorkloadKey{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name},
			State:       workload.State{Generation: 1, ObservedGeneration: 1, Desired: 1, Total: 1, Updated: 1, Available: 1},
		})
	}
	o.Jobs = []delivery.JobState{{JobRef: workload.JobRef{Namespace: ns, Name: "cleanup"}, Complete: true}}
	return o
}

// change is a step away from an installation that is ready.
type change func(*Installation)

func installation(changes ...change) *Installation {
	in := &Installation{Target: resolved, Owned: true, Bundle: bundle(), Observation: seenWell()}
	for _, c := range changes {
		c(in)
	}
	return in
}

func target(f Finding) change { return func(in *Installation) { in.Target = f } }

func unheld(in *Installation) {
	in.Owned, in.Bundle, in.Observation = false, nil, delivery.Observation{}
}

func removing(in *Installation) { in.Removing, in.Bundle = "removing what is installed", nil }

func fault(reason render.Reason) change {
	return func(in *Installation) {
		in.Fault, in.Bundle, in.Observation = &render.Error{Reason: reason, Message: "it is wrong"}, nil, delivery.Observation{}
	}
}

func waiting(in *Installation) { in.Observation.Waiting = "waiting for the work agent" }

func paused(in *Installation) {
	in.Observation.Waiting, in.Observation.Paused = "paused by annotation a", true
}

func blocked(by string) change {
	return func(in *Installation) {
		in.Observation = delivery.Observation{Waiting: "see InstallSucceeded", Blocked: by}
	}
}

func failed(failures ...delivery.Failure) change {
	return func(in *Installation) { in.Observation.Failed = failures }
}

func scaledDown(in *Installation) { in.Observation.Workloads[0].Available = 0 }

func forbidden(name string) delivery.Failure {
	return delivery.Failure{Object: "ConfigMap " + ns + "/" + name, Cause: "forbidden"}
}

func unknownKind(name string) delivery.Failure {
	return delivery.Failure{Object: "Gateway " + ns + "/" + name, Cause: "no matches for kind", KindMissing: true}
}

// faults are all that a bundle can be missing for: what package render and the readers of configurations say.
func faults() []render.Reason {
	out := []render.Reason{api.ReasonNotEligible, api.FaultConfigPending}
	for _, reason := range api.Reasons()[api.InstallSucceeded] {
		if !slices.Contains([]string{
			api.ReasonApplied, api.ReasonRendered, api.ReasonApplyFailed, api.ReasonNotEligible,
			api.ReasonTargetNotResolved, api.ReasonDelivering, api.ReasonPaused, api.ReasonRemoving,
		}, reason) {
			out = append(out, render.Reason(reason))
		}
	}
	return out
}

// last are the conditions of an installation that was looked at before.
func last(changes ...change) []metav1.Condition {
	out := Conditions(installation(changes...), nil)
	for i := range out {
		out[i].LastTransitionTime, out[i].ObservedGeneration = metav1.Unix(1000, 0), 7
	}
	return out
}

// brokenDown are the conditions as "Type Status Reason".
func brokenDown(conditions []metav1.Condition) []string {
	var out []string
	for _, c := range conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return out
}

func messageOf(t *testing.T, conditions []metav1.Condition, condition string) string {
	t.Helper()
	c := apimeta.FindStatusCondition(conditions, condition)
	if c == nil {
		t.Fatalf("condition %s is missing", condition)
	}
	return c.Message
}

// documented are the rows of the table of reasons in docs/conditions.md, as "Type Status Reason".
func documented(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "<!-- reasons -->\n")
	body, _, closed := strings.Cut(rest, "<!-- /reasons -->")
	if !found || !closed {
		t.Fatal("docs/conditions.md has no table of reasons")
	}
	var rows []string
	for line := range strings.Lines(body) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			rows = append(rows, fmt.Sprintf("%s %s %s", strings.Trim(cells[1], " `"), strings.TrimSpace(cells[3]), strings.Trim(cells[2], " `")))
		}
	}
	return rows
}

// keeps is an installation that the cluster keeps, with so many available pods of its workload.
func keeps(available int64) change {
	return func(in *Installation) {
		in.Kept = &delivery.Kept{
			Workloads: []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "activator"}},
			Observation: delivery.Observation{Workloads: []delivery.WorkloadState{{
				WorkloadKey: delivery.WorkloadKey{Kind: "Deployment", Namespace: ns, Name: "activator"},
				State:       workload.State{Generation: 1, ObservedGeneration: 1, Desired: 1, Total: 1, Updated: 1, Available: available},
			}}},
		}
	}
}
