// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"fmt"
	"slices"
	"time"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// Observation is what was seen of a bundle on a cluster, however it came there. Its lists are in no order.
type Observation struct {
	// Waiting says what delivery waits for; empty when the cluster has reported on exactly this bundle. As long as it is
	// not empty, the rest tells of an earlier state.
	Waiting string
	// Blocked says what the cluster refuses that has to come before all else; empty when it does not. Waiting is not empty
	// then.
	Blocked string
	// Failed are the objects that could not be written.
	Failed []Failure
	// Workloads are the Deployments and StatefulSets that were reported.
	Workloads []WorkloadState
	// Jobs are the Jobs that were reported. One that has finished and was removed is not among them.
	Jobs []JobState
	// FinishedJobs are those that have finished and were removed since.
	FinishedJobs []render.JobRef
}

// Failure is an object that could not be written on the cluster.
type Failure struct {
	// Object is "Kind namespace/name".
	Object string
	// Cause is what the cluster or its agent says, as it stands: it is not ours, and may be long.
	Cause string
	// KindMissing tells that the cluster does not know the object's kind.
	KindMissing bool
	// Since is when it began to fail, by the clock of the cluster.
	Since time.Time
}

// settleTime is how long an object may fail before that is told: the agent tries again, and what an object needs often
// comes a moment after it, as permissions do.
const settleTime = 10 * time.Second

// Settle takes failures that are too young to be told for something that is waited for. wait is after how long the first
// of them is old enough; 0 when there is none.
func (o *Observation) Settle(now time.Time) (wait time.Duration) {
	var young []string
	o.Failed = slices.DeleteFunc(slices.Clone(o.Failed), func(f Failure) bool {
		left := f.Since.Add(settleTime).Sub(now)
		if left <= 0 {
			return false
		}
		if wait == 0 || left < wait {
			wait = left
		}
		young = append(young, f.Object)
		return true
	})
	if len(young) > 0 && o.Waiting == "" {
		o.Waiting = "waiting for objects that could not be applied at once: " + slices.Min(young)
	}
	return min(wait, settleTime) // the cluster's clock may be ahead
}

// JobState is what was last seen of a Job.
type JobState struct {
	render.JobRef
	Complete, Failed bool
}

// NotReady lists what of the expected workloads and Jobs is not as it should be, sorted, each with why.
func (o *Observation) NotReady(workloads []render.Workload, jobs []render.JobRef) []string {
	out := append(NotRolledOut(workloads, o.Workloads), o.notComplete(jobs)...)
	slices.Sort(out)
	return out
}

func (o *Observation) notComplete(expected []render.JobRef) []string {
	var out []string
	for _, job := range expected {
		i := slices.IndexFunc(o.Jobs, func(s JobState) bool { return s.JobRef == job })
		switch {
		case i >= 0 && o.Jobs[i].Complete, slices.Contains(o.FinishedJobs, job):
		case i >= 0 && o.Jobs[i].Failed:
			out = append(out, fmt.Sprintf("Job %s/%s: it has failed; see its pods, and delete it to have it run again", job.Namespace, job.Name))
		default:
			out = append(out, fmt.Sprintf("Job %s/%s: it has not completed yet", job.Namespace, job.Name))
		}
	}
	return out
}
