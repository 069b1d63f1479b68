// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

const (
	// removalWindow is the time in which removals count together.
	removalWindow = time.Hour
	// settleTime is the time for which a cluster must be deselected before its child is deleted: further clusters may follow, and count
	// together.
	settleTime = 10 * time.Second
	// healthyTime is the time for which a cluster must be healthy before its child is deleted: a scheduler selects a cluster that has
	// returned only after a moment. While a Placement may select such a cluster, the manager examines the Placement again after healthyTime.
	healthyTime = 30 * time.Second
)

// removalCandidate is a child whose cluster is no longer selected.
type removalCandidate struct {
	component api.Component
	child     *unstructured.Unstructured
	// profile is the ClusterProfile of the child, nil when the namespace has none.
	profile *clusterinventoryv1alpha1.ClusterProfile
	// deselected is the time at which the manager first found the cluster deselected.
	deselected time.Time
	// counted reports whether the status counts the removal already.
	counted bool
	// undecided reports whether the cluster may have been unhealthy, and the Placement of the KnativeFleet may select the cluster again. OCM
	// drops an unreachable cluster from the decisions, and nothing in the API tells whether OCM has decided since the return.
	undecided bool
}

// removalInput holds the facts about all children whose clusters are no longer selected.
type removalInput struct {
	candidates []removalCandidate
	// owned is the number of children of the KnativeFleet, with the candidates.
	owned int
	// selected is the number of selected clusters.
	selected   int
	removed    []fleetv1alpha1.Removals
	maxRemoval intstr.IntOrString
	// limit returns how many of a number of children maxRemoval permits to remove.
	limit func(maxRemoval intstr.IntOrString, children int) int
	// confirmed reports whether the user has confirmed all removals.
	confirmed bool
	now       time.Time
}

// removalPlan is the decision on all candidates.
type removalPlan struct {
	remove []removalCandidate
	// held is the reason why children stay, nil without a reason.
	held *problem
	wait time.Duration
}

// planRemovals removes the children of all healthy clusters that are no longer selected, or only the children whose removal was counted by an
// earlier pass.
func planRemovals(in *removalInput) removalPlan {
	var ready, counted, settling []removalCandidate
	var unavailable, undecided []string
	var wait time.Duration
	for _, c := range in.candidates {
		remaining, healthy := remainingWait(&c, in.now)
		switch {
		case !healthy:
			unavailable = append(unavailable, c.child.GetName())
		case c.undecided && !in.confirmed:
			undecided = append(undecided, c.child.GetName())
		case remaining > 0:
			settling = append(settling, c)
			wait = max(wait, remaining)
		case c.counted:
			counted = append(counted, c)
		default:
			ready = append(ready, c)
		}
	}
	var examineAgain time.Duration // no event tells that a Placement may not select a cluster any more
	if len(undecided) > 0 {
		examineAgain = healthyTime
	}
	pending := len(ready) + len(settling)
	switch {
	case pending+len(counted) > 0 && in.selected == 0 && !in.confirmed:
		return removalPlan{wait: examineAgain, held: &problem{fleetv1alpha1.ReasonSelectionEmpty, fmt.Sprintf(
			"no cluster is selected any more, so that all %d children stay; correct the selection, or annotate the KnativeFleet with %s: %s to remove the children",
			pending+len(counted), api.RemovalAnnotation, api.RemovalConfirm)}}
	case pending > 0 && !in.confirmed && pending > in.budget():
		return removalPlan{remove: counted, wait: reconciler.Soonest(in.untilBudgetGrows(), examineAgain), held: &problem{fleetv1alpha1.ReasonMassRemoval, fmt.Sprintf(
			"the clusters of %d children are no longer selected, and maxRemoval %s permits %d more removals within the hour; correct the selection, or annotate the KnativeFleet with %s: %s to remove the children: %s",
			pending, in.maxRemoval.String(), max(in.budget(), 0), api.RemovalAnnotation, api.RemovalConfirm, listCandidates(append(ready, settling...)))}}
	case len(settling) > 0:
		return removalPlan{remove: counted, wait: reconciler.Soonest(wait, examineAgain), held: &problem{fleetv1alpha1.ReasonSettling, fmt.Sprintf(
			"the children of %s are removed in a moment, unless further clusters are deselected", listCandidates(append(ready, settling...)))}}
	}
	out := removalPlan{remove: append(counted, ready...), wait: examineAgain}
	switch {
	case len(unavailable) > 0:
		out.held = &problem{fleetv1alpha1.ReasonClusterUnavailable, fmt.Sprintf(
			"the clusters of ClusterProfiles %s are no longer selected, and keep their installations because the ClusterProfiles do not exist or are not healthy; if the clusters never return, delete the children and annotate the children with %s=true",
			message.QuotedList(unavailable), api.ForceOrphanAnnotation)}
	case len(undecided) > 0:
		out.held = &problem{fleetv1alpha1.ReasonPlacementUndecided, fmt.Sprintf(
			"the clusters of ClusterProfiles %s may have been unreachable, and the Placement may select the clusters again, so that the clusters keep their installations; see whether OCM's placement controller runs, or annotate the KnativeFleet with %s: %s to remove the children",
			message.QuotedList(undecided), api.RemovalAnnotation, api.RemovalConfirm)}
	}
	return out
}

// countHeld returns the number of clusters with candidates that stay.
func (p *removalPlan) countHeld(candidates []removalCandidate) int {
	names := sets.New[string]()
	for _, c := range candidates {
		names.Insert(c.child.GetName())
	}
	for _, c := range p.remove {
		names.Delete(c.child.GetName())
	}
	return names.Len()
}

// budget returns the number of removals that maxRemoval still permits within the hour.
func (in *removalInput) budget() int {
	recent := 0
	for _, r := range in.removed {
		recent += int(r.Count)
	}
	return in.limit(in.maxRemoval, in.owned+recent) - recent
}

// untilBudgetGrows returns the time until the oldest removal leaves the window; 0 without a removal.
func (in *removalInput) untilBudgetGrows() time.Duration {
	first := time.Duration(0)
	for _, r := range in.removed {
		if wait := r.Minute.Add(removalWindow).Sub(in.now); wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}

// remainingWait returns the time until the child may be removed, and whether its cluster is healthy.
func remainingWait(c *removalCandidate, now time.Time) (remaining time.Duration, healthy bool) {
	if !isHealthy(c.profile) {
		return 0, false
	}
	condition := apimeta.FindStatusCondition(c.profile.Status.Conditions, clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy)
	settled := laterTime(c.deselected.Add(settleTime), condition.LastTransitionTime.Add(healthyTime))
	return max(settled.Sub(now), 0), true
}

func listCandidates(candidates []removalCandidate) string {
	var names []string
	for _, c := range candidates {
		names = append(names, c.child.GetName())
	}
	return message.QuotedList(names)
}

// dropOldRemovals returns the removals within the window. A time that is further ahead than the window comes from a manager with another
// clock: its removals count as removals of now, for one window and not without end.
func dropOldRemovals(removed []fleetv1alpha1.Removals, now time.Time) []fleetv1alpha1.Removals {
	var out []fleetv1alpha1.Removals
	for _, r := range removed {
		switch age := now.Sub(r.Minute.Time); {
		case age >= removalWindow:
		case -age >= removalWindow:
			out = recordRemovals(out, int(r.Count), now)
		default:
			out = append(out, r)
		}
	}
	return out
}

// recordRemovals adds removals of this minute.
func recordRemovals(removed []fleetv1alpha1.Removals, count int, now time.Time) []fleetv1alpha1.Removals {
	minute := metav1.NewTime(now.Truncate(time.Minute))
	out := slices.Clone(removed)
	if last := len(out) - 1; last >= 0 && out[last].Minute.Equal(&minute) {
		out[last].Count += int32(count) //nolint:gosec // a fleet has fewer clusters
		return out
	}
	return append(out, fleetv1alpha1.Removals{Minute: minute, Count: int32(count)}) //nolint:gosec // a fleet has fewer clusters
}

func sortCandidates(candidates []removalCandidate) {
	slices.SortFunc(candidates, func(a, b removalCandidate) int {
		return strings.Compare(string(a.component)+"/"+a.child.GetName(), string(b.component)+"/"+b.child.GetName())
	})
}
