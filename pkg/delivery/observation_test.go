// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

func TestNotReady(t *testing.T) {
	const ns = "knative-serving"
	workloads := []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook"}, {Kind: "StatefulSet", Namespace: ns, Name: "reply"}}
	job := func(name string) workload.JobRef { return workload.JobRef{Namespace: ns, Name: name} }
	jobs := []workload.JobRef{job("cleanup"), job("migration")}
	running := func(kind, name string) WorkloadState {
		return WorkloadState{
			WorkloadKey: WorkloadKey{Kind: kind, Namespace: ns, Name: name},
			State:       workload.State{Generation: 1, ObservedGeneration: 1, Desired: 1, Total: 1, Updated: 1, Available: 1},
		}
	}
	well := []WorkloadState{running("Deployment", "webhook"), running("StatefulSet", "reply")}
	for name, tc := range map[string]struct {
		reason string
		seen   Observation
		want   []string
	}{
		"everything is as it should be": {
			reason: "Each Job has completed, wherever that is known from.",
			seen:   Observation{Workloads: well, Jobs: []JobState{{JobRef: job("cleanup"), Complete: true}}, FinishedJobs: []workload.JobRef{job("migration")}},
		},
		"nothing was reported": {
			reason: "Sorted, whatever it is.",
			want: []string{
				"Deployment " + ns + "/webhook: not seen yet", "Job " + ns + "/cleanup: the Job has not completed yet",
				"Job " + ns + "/migration: the Job has not completed yet", "StatefulSet " + ns + "/reply: not seen yet",
			},
		},
		"a Job is running": {
			reason: "It was seen, and has neither completed nor failed.",
			seen:   Observation{Workloads: well, Jobs: []JobState{{JobRef: job("cleanup")}}, FinishedJobs: []workload.JobRef{job("migration")}},
			want:   []string{"Job " + ns + "/cleanup: the Job has not completed yet"},
		},
		"a Job has failed": {
			reason: "It will not complete by waiting.",
			seen:   Observation{Workloads: well, Jobs: []JobState{{JobRef: job("cleanup"), Failed: true}}, FinishedJobs: []workload.JobRef{job("migration")}},
			want:   []string{"Job " + ns + "/cleanup: the Job has failed; check its pods, and delete the Job to run the Job again"},
		},
		"a Job has completed after a failure": {
			reason: "What counts is the end.",
			seen:   Observation{Workloads: well, Jobs: []JobState{{JobRef: job("cleanup"), Failed: true, Complete: true}, {JobRef: job("migration"), Complete: true}}},
		},
		"a finished Job runs again": {
			reason: "It has completed once for this version.",
			seen:   Observation{Workloads: well, Jobs: []JobState{{JobRef: job("cleanup")}}, FinishedJobs: jobs},
		},
		"Jobs of other names": {
			reason: "They were of another version, or namespace.",
			seen: Observation{
				Workloads: well, Jobs: []JobState{{JobRef: job("cleanup-1.22"), Complete: true}},
				FinishedJobs: []workload.JobRef{{Namespace: "other", Name: "cleanup"}, job("migration")},
			},
			want: []string{"Job " + ns + "/cleanup: the Job has not completed yet"},
		},
		"a workload that is not expected": {
			reason: "It is somebody else's.",
			seen: Observation{
				Workloads:    append(slices.Clone(well), WorkloadState{WorkloadKey: WorkloadKey{Kind: "Deployment", Namespace: ns, Name: "other"}, State: workload.State{Desired: 3}}),
				FinishedJobs: jobs,
			},
		},
		"a workload of another kind": {
			reason: "A StatefulSet of the same name is not the Deployment.",
			seen:   Observation{Workloads: []WorkloadState{running("StatefulSet", "webhook"), running("StatefulSet", "reply")}, FinishedJobs: jobs},
			want:   []string{"Deployment " + ns + "/webhook: not seen yet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				if diff := cmp.Diff(tc.want, tc.seen.NotReady(workloads, jobs)); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", tc.reason, diff)
				}
				rand.Shuffle(len(tc.seen.Jobs), func(i, j int) { tc.seen.Jobs[i], tc.seen.Jobs[j] = tc.seen.Jobs[j], tc.seen.Jobs[i] })
				slices.Reverse(tc.seen.Workloads)
				slices.Reverse(tc.seen.FinishedJobs)
			}
		})
	}
}

func TestSettle(t *testing.T) {
	now := time.Unix(1000, 0)
	failing := func(name string, seconds int) Failure {
		return Failure{Object: name, Since: now.Add(-time.Duration(seconds) * time.Second)}
	}
	for name, tc := range map[string]struct {
		reason string
		in     Observation
		want   []string // told as failed
		wait   time.Duration
		waits  bool
	}{
		"nothing fails": {reason: "There is nothing to wait for."},
		"old failure":   {reason: "The failure does not end by itself.", in: Observation{Failed: []Failure{failing("a", 11)}}, want: []string{"a"}},
		"young failure": {reason: "The agent tries again.", in: Observation{Failed: []Failure{failing("a", 4)}}, wait: 6 * time.Second, waits: true},
		"both": {
			reason: "What is old is told at once.", in: Observation{Failed: []Failure{failing("a", 4), failing("b", 60), failing("c", 7)}},
			want: []string{"b"}, wait: 3 * time.Second, waits: true,
		},
		"a clock 5 seconds ahead":     {reason: "The agent tries again.", in: Observation{Failed: []Failure{failing("a", -5)}}, wait: settleTime, waits: true},
		"a clock 10 minutes ahead":    {reason: "The failure would be hidden for 10 minutes.", in: Observation{Failed: []Failure{failing("a", -600)}}, want: []string{"a"}},
		"a clock 10 minutes behind":   {reason: "The failure seems to be old.", in: Observation{Failed: []Failure{failing("a", 600)}}, want: []string{"a"}},
		"a clock ahead, and an error": {reason: "Each failure has its own time.", in: Observation{Failed: []Failure{failing("a", -600), failing("b", 3)}}, want: []string{"a"}, wait: 7 * time.Second, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := tc.in
			wait := o.Settle(now)
			var told []string
			for _, f := range o.Failed {
				told = append(told, f.Object)
			}
			if diff := cmp.Diff(tc.want, told); diff != "" || wait != tc.wait || (o.Waiting != "") != tc.waits {
				t.Errorf("%s Settle waits %s for %q (-want +told):\n%s", tc.reason, wait, o.Waiting, diff)
			}
		})
	}
}
