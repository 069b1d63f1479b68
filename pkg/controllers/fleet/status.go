// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
)

const (
	// maxReported is the number of clusters that the status names.
	maxReported = 10
	// maxCause bounds the text of an error in a condition, maxMessage the message of a condition: four conditions, each with ten of the
	// longest names, would exceed the bound of the status.
	maxCause, maxMessage = 1024, 2048
)

// report holds the facts about a KnativeFleet for its status.
type report struct {
	generation int64
	revision   string
	// problem is the reason why the KnativeFleet is not followed, nil without a reason.
	problem *problem
	// refused is the error of a child that the API server refused; empty without an error.
	refused  string
	clusters []clusterState
	plan     rolloutPlan
	// held is the reason why children of deselected clusters stay, nil without a reason.
	held     *problem
	removals []fleetv1alpha1.Removals
}

// computeStatus returns the status of a KnativeFleet. While a problem keeps the manager from reading the clusters, the counts stay.
func computeStatus(in *report, last *fleetv1alpha1.KnativeFleetStatus, now time.Time) fleetv1alpha1.KnativeFleetStatus {
	out := fleetv1alpha1.KnativeFleetStatus{ObservedGeneration: in.generation, Removals: in.removals, Rollout: last.Rollout}
	if in.problem == nil {
		out.Rollout = countClusters(in)
	}
	conditions := []metav1.Condition{
		{Type: fleetv1alpha1.Ready}, rolledOut(in, &out.Rollout), targetsResolved(in),
	}
	conditions[0] = summarizeReady(&out.Rollout, conditions[1])
	if in.held != nil {
		conditions = append(conditions, metav1.Condition{
			Type: fleetv1alpha1.RemovalHeld, Status: metav1.ConditionTrue, Reason: in.held.reason, Message: in.held.message,
		})
	}
	for i := range conditions {
		c := &conditions[i]
		c.Message = message.Shorten(c.Message, maxMessage)
		c.ObservedGeneration, c.LastTransitionTime = in.generation, metav1.NewTime(now)
		if before := apimeta.FindStatusCondition(last.Conditions, c.Type); before != nil && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	out.Conditions = conditions
	return out
}

func countClusters(in *report) fleetv1alpha1.RolloutStatus {
	out := fleetv1alpha1.RolloutStatus{Revision: in.revision, Total: int32(len(in.clusters))} //nolint:gosec // a hub has fewer clusters
	var worst []*clusterState
	for i := range in.clusters {
		c := &in.clusters[i]
		if c.updated {
			out.Updated++
		}
		if c.unresolvedTarget {
			out.Unresolved++
		}
		switch c.phase {
		case phaseSucceeded:
			out.Ready++
			continue
		case phaseFailed, phaseTimedOut:
			out.Failed++
		case phaseProgressing, phaseSkipped, phaseWaiting:
		}
		worst = append(worst, c)
	}
	slices.SortStableFunc(worst, func(a, b *clusterState) int {
		return cmp.Or(cmp.Compare(b.phase, a.phase), a.since.Compare(b.since), strings.Compare(a.name, b.name))
	})
	for _, c := range worst[:min(len(worst), maxReported)] {
		r := fleetv1alpha1.ClusterReport{Name: message.Shorten(c.name, message.MaxName), Reason: message.OneLine(c.reason, message.MaxName)}
		if !c.since.IsZero() {
			since := metav1.NewTime(c.since).Rfc3339Copy()
			r.Since = &since
		}
		out.Clusters = append(out.Clusters, r)
	}
	return out
}

func newCondition(conditionType string, status metav1.ConditionStatus, reason, text string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: text}
}

// rolledOut returns condition RolledOut. The first case that applies counts.
func rolledOut(in *report, counts *fleetv1alpha1.RolloutStatus) metav1.Condition {
	no := func(reason, text string) metav1.Condition {
		return newCondition(fleetv1alpha1.RolledOut, metav1.ConditionFalse, reason, text)
	}
	waiting, failed := namesIn(in.clusters, phaseWaiting), append(namesIn(in.clusters, phaseFailed), namesIn(in.clusters, phaseTimedOut)...)
	switch {
	case in.problem != nil:
		return no(in.problem.reason, message.Shorten(in.problem.message, maxCause))
	case counts.Total == 0:
		return no(fleetv1alpha1.ReasonNothingSelected, "no cluster is selected; see whether the namespace has ClusterProfiles that the KnativeFleet selects")
	case in.plan.stopped:
		return no(fleetv1alpha1.ReasonMaxFailuresExceeded, fmt.Sprintf(
			"clusters %s failed, which is more than maxFailures permits, so that no further cluster gets revision %s; correct the template, see the KnativeServing or KnativeEventing of these clusters",
			message.QuotedList(failed), in.revision))
	case in.refused != "":
		return no(fleetv1alpha1.ReasonChildRefused, "the API server refused a child; correct the template: "+message.OneLine(in.refused, maxCause))
	case len(waiting) > 0:
		return no(fleetv1alpha1.ReasonProgressing, fmt.Sprintf("%d of %d clusters have revision %s", counts.Updated, counts.Total, in.revision))
	case len(failed) > 0:
		return no(fleetv1alpha1.ReasonClustersFailed, fmt.Sprintf(
			"clusters %s failed, as many as maxFailures permits; see the KnativeServing or KnativeEventing of these clusters", message.QuotedList(failed)))
	case counts.Updated < counts.Total:
		return no(fleetv1alpha1.ReasonClustersUnresolved, fmt.Sprintf(
			"%d of %d clusters have revision %s; the others get the revision as soon as condition %s permits", counts.Updated, counts.Total, in.revision,
			fleetv1alpha1.TargetClusterResolved))
	}
	return newCondition(fleetv1alpha1.RolledOut, metav1.ConditionTrue, fleetv1alpha1.ReasonRolledOut, fmt.Sprintf("every cluster has revision %s", in.revision))
}

func targetsResolved(in *report) metav1.Condition {
	no := func(reason, text string) metav1.Condition {
		return newCondition(fleetv1alpha1.TargetClusterResolved, metav1.ConditionFalse, reason, text)
	}
	var unresolved []string
	for i := range in.clusters {
		if in.clusters[i].unresolvedTarget {
			unresolved = append(unresolved, in.clusters[i].name)
		}
	}
	switch {
	case in.problem == nil && len(in.clusters) == 0:
		return no(fleetv1alpha1.ReasonNothingSelected, "no cluster is selected")
	case in.problem != nil:
		return no(in.problem.reason, message.Shorten(in.problem.message, maxCause))
	case len(unresolved) > 0:
		return no(fleetv1alpha1.ReasonClustersUnresolved, fmt.Sprintf(
			"clusters %s are unknown or unavailable, or their resources belong to another owner; see status.rollout.clusters for the reasons", message.QuotedList(unresolved)))
	}
	return newCondition(fleetv1alpha1.TargetClusterResolved, metav1.ConditionTrue, fleetv1alpha1.ReasonTargetsResolved, "every selected cluster is known and available")
}

func summarizeReady(counts *fleetv1alpha1.RolloutStatus, rolledOut metav1.Condition) metav1.Condition {
	out := newCondition(fleetv1alpha1.Ready, metav1.ConditionFalse, rolledOut.Reason, rolledOut.Message)
	switch {
	case rolledOut.Status != metav1.ConditionTrue:
	case counts.Ready < counts.Total:
		out.Reason, out.Message = fleetv1alpha1.ReasonClustersNotReady, fmt.Sprintf(
			"%d of %d clusters are Ready; see status.rollout.clusters for the reasons of the others", counts.Ready, counts.Total)
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, fleetv1alpha1.ReasonReady, fmt.Sprintf("all %d clusters are Ready", counts.Total)
	}
	return out
}

func namesIn(clusters []clusterState, of phase) []string {
	var out []string
	for i := range clusters {
		if clusters[i].phase == of {
			out = append(out, clusters[i].name)
		}
	}
	return out
}

// equalStatus reports whether two statuses look the same to users.
func equalStatus(a, b *fleetv1alpha1.KnativeFleetStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}
