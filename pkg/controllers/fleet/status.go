// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

const (
	// maxCause bounds the text of an error in a condition, maxMessage the message of a condition: six conditions, each with ten of the
	// longest names, would exceed the bound of the status.
	maxCause, maxMessage = 1024, 1408
)

// report holds the facts about a KnativeFleet for its status.
type report struct {
	generation int64
	revision   string
	// problem is the reason why the KnativeFleet is not followed, nil without a reason.
	problem *problem
	// paused reports whether an annotation keeps the children as they are.
	paused bool
	// refused is the error of a child that the API server refused, during a pause of a child whose pause the API server refused; empty without
	// an error.
	refused  string
	clusters []clusterState
	plan     rolloutPlan
	// held is the reason why children of deselected clusters stay, nil without a reason.
	held *problem
	// heldClusters is the number of deselected clusters with children that stay.
	heldClusters int
	removals     []fleetv1alpha1.Removals
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
	if len(in.clusters) > 0 {
		conditions = append(conditions, migrationEligible(in), dependenciesInstalled(in))
	}
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

// countClusters returns status.rollout.
func countClusters(in *report) fleetv1alpha1.RolloutStatus {
	states := make([]rollout.ClusterState, 0, len(in.clusters))
	for i := range in.clusters {
		c := &in.clusters[i]
		states = append(states, rollout.ClusterState{
			Name: c.name, Phase: c.phase, Updated: c.updated, Unresolved: c.unresolvedTarget, Reason: c.reason, Since: c.since, Versions: c.versions,
		})
	}
	out := rollout.CountClusters(in.revision, states)
	out.Held = int32(in.heldClusters) //nolint:gosec // a hub has fewer clusters
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
	pauseRefused := in.paused && in.refused != ""
	waiting, failed := namesIn(in.clusters, phaseWaiting), append(namesIn(in.clusters, phaseFailed), namesIn(in.clusters, phaseTimedOut)...)
	switch {
	case in.problem != nil:
		return no(in.problem.reason, message.Shorten(in.problem.message, maxCause))
	case counts.Total == 0:
		return no(fleetv1alpha1.ReasonNothingSelected, "no cluster is selected; see whether the namespace has ClusterProfiles that the KnativeFleet selects")
	case in.paused && !pauseRefused && counts.Updated < counts.Total:
		return no(fleetv1alpha1.ReasonPaused, fmt.Sprintf("annotation %s of the KnativeFleet keeps the clusters as they are; %d of %d clusters have revision %s",
			api.PausedAnnotation, counts.Updated, counts.Total, in.revision))
	case in.plan.stopped && !pauseRefused:
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
	unresolved := clustersWith(in.clusters, func(c *clusterState) bool { return c.unresolvedTarget })
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

// migrationEligible returns condition VersionMigrationEligible, which names the clusters whose child reports the condition as False.
func migrationEligible(in *report) metav1.Condition {
	ineligible := clustersWith(in.clusters, func(c *clusterState) bool { return c.ineligible })
	if len(ineligible) > 0 {
		return newCondition(fleetv1alpha1.VersionMigrationEligible, metav1.ConditionFalse, fleetv1alpha1.ReasonNotEligible, fmt.Sprintf(
			"clusters %s cannot go to the version in one step; see the KnativeServing or KnativeEventing of these clusters", message.QuotedList(ineligible)))
	}
	return newCondition(fleetv1alpha1.VersionMigrationEligible, metav1.ConditionTrue, fleetv1alpha1.ReasonEligible,
		"no selected cluster reports a version that it cannot go to in one step")
}

// dependenciesInstalled returns condition DependenciesInstalled, which names the clusters whose child reports the condition as False.
func dependenciesInstalled(in *report) metav1.Condition {
	lacking := clustersWith(in.clusters, func(c *clusterState) bool { return c.lacksKinds })
	if len(lacking) > 0 {
		return newCondition(fleetv1alpha1.DependenciesInstalled, metav1.ConditionFalse, fleetv1alpha1.ReasonKindMissing, fmt.Sprintf(
			"clusters %s do not know a kind that Knative needs; see the KnativeServing or KnativeEventing of these clusters", message.QuotedList(lacking)))
	}
	return newCondition(fleetv1alpha1.DependenciesInstalled, metav1.ConditionTrue, fleetv1alpha1.ReasonNothingMissing,
		"no selected cluster reports a missing kind")
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
	return clustersWith(clusters, func(c *clusterState) bool { return c.phase == of })
}

// clustersWith returns the names of the clusters that the function selects.
func clustersWith(clusters []clusterState, selects func(*clusterState) bool) []string {
	var out []string
	for i := range clusters {
		if selects(&clusters[i]) {
			out = append(out, clusters[i].name)
		}
	}
	return out
}

// equalStatus reports whether two statuses look the same to users.
func equalStatus(a, b *fleetv1alpha1.KnativeFleetStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}
