// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"fmt"
	"slices"
	"time"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

// Observation is the state of a bundle on a cluster, for every delivery mode. The lists are unsorted.
type Observation struct {
	// Waiting names the next event that delivery needs; empty when the cluster has reported on exactly this bundle. With
	// Waiting, the other fields describe an earlier state.
	Waiting string
	// Paused reports whether Waiting names the end of a pause.
	Paused bool
	// Blocked names a refusal of the cluster that stops all later objects; empty without such a refusal. Waiting is not
	// empty then.
	Blocked string
	// Failed lists the objects that could not be written.
	Failed []Failure
	// Workloads lists the reported Deployments and StatefulSets.
	Workloads []WorkloadState
	// Jobs lists the reported Jobs, without Jobs that have finished and were removed.
	Jobs []JobState
	// FinishedJobs lists the Jobs that have finished and were removed since.
	FinishedJobs []workload.JobRef
}

// Failure is an object that could not be written on the cluster.
type Failure struct {
	// Object is "Kind namespace/name".
	Object string
	// Cause is the text of the cluster or the work agent, unchanged: foreign and of any length.
	Cause string
	// KindMissing reports whether the cluster does not serve the object's kind.
	KindMissing bool
	// Since is the time of the first failure by the clock of the cluster.
	Since time.Time
}

// settleTime is how long an object may fail before the failure is reported: the agent tries again, and objects such as
// permissions often arrive a moment after their users.
const settleTime = 10 * time.Second

// Settle moves failures younger than settleTime from Failed to Waiting. wait is the time until the first of these failures
// is old enough; 0 without young failures. A failure of a cluster whose clock is far ahead has no known age, and is reported at once:
// otherwise the failure would be young as long as the clock is ahead.
func (o *Observation) Settle(now time.Time) (wait time.Duration) {
	var young []string
	o.Failed = slices.DeleteFunc(slices.Clone(o.Failed), func(f Failure) bool {
		left := f.Since.Add(settleTime).Sub(now)
		if left <= 0 || left > 2*settleTime {
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
	return min(wait, settleTime) // the cluster's clock may be a little ahead
}

// JobState is the last reported state of a Job.
type JobState struct {
	workload.JobRef
	Complete, Failed bool
}

// NotReady lists the expected workloads and Jobs that are not ready, sorted, each with the reason.
func (o *Observation) NotReady(workloads []workload.Expected, jobs []workload.JobRef) []string {
	out := append(NotRolledOut(workloads, o.Workloads), o.notComplete(jobs)...)
	slices.Sort(out)
	return out
}

func (o *Observation) notComplete(expected []workload.JobRef) []string {
	var out []string
	for _, job := range expected {
		i := slices.IndexFunc(o.Jobs, func(s JobState) bool { return s.JobRef == job })
		switch {
		case i >= 0 && o.Jobs[i].Complete, slices.Contains(o.FinishedJobs, job):
		case i >= 0 && o.Jobs[i].Failed:
			out = append(out, fmt.Sprintf("Job %s/%s: the Job has failed; check its pods, and delete the Job to run the Job again", job.Namespace, job.Name))
		default:
			out = append(out, fmt.Sprintf("Job %s/%s: the Job has not completed yet", job.Namespace, job.Name))
		}
	}
	return out
}

// Kept is the state of the installation that a cluster keeps while the spec of the resource yields no bundle. The installation
// itself says which workloads and Jobs to expect.
type Kept struct {
	Workloads   []workload.Expected
	Jobs        []workload.JobRef
	Observation Observation
}

// NotReady lists the workloads and Jobs of the installation that are not ready, sorted, each with the reason.
func (k *Kept) NotReady() []string { return k.Observation.NotReady(k.Workloads, k.Jobs) }
