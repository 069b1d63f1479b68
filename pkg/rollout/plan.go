// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	sdkv1alpha1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"
)

// Phase is the state of a cluster in a rollout.
type Phase int

const (
	// Succeeded means that the cluster has the change and works.
	Succeeded Phase = iota
	// Progressing means that the cluster has the change and does not work yet.
	Progressing
	// Waiting means that the cluster does not have the change.
	Waiting
	// Skipped means that the cluster does not take part in the rollout now, and holds no other cluster up.
	Skipped
	// Failed means that the cluster cannot work with the change, whatever time passes.
	Failed
	// TimedOut means that the cluster did not work within progressDeadline.
	TimedOut
)

// Cluster is a cluster of a rollout.
type Cluster struct {
	Name  string
	Group sdkv1beta1.GroupKey
	Phase Phase
	// Since is the time of the last change of the phase; zero when unknown.
	Since time.Time
}

// Selection is a rollout strategy with the groups of the clusters that the owner of the strategy selects, and the annotations of the owner.
type Selection struct {
	Strategy    clusterv1alpha1.RolloutStrategy
	Annotations map[string]string
	Groups      map[string]sdkv1beta1.GroupKey
}

// Plan says which clusters get the change now.
type Plan struct {
	// Update holds the names of the clusters that get the change now.
	Update sets.Set[string]
	// TimedOut holds the names of the clusters that exceeded progressDeadline.
	TimedOut sets.Set[string]
	// Stopped reports whether more clusters failed than maxFailures permits.
	Stopped bool
	// Recheck is the time until the plan may change without an event; 0 means that only an event changes the plan.
	Recheck time.Duration
}

// Determine returns the plan of a rollout. A strategy that OCM's engine refuses is an error.
func Determine(strategy clusterv1alpha1.RolloutStrategy, clusters []Cluster) (Plan, error) {
	plan := Plan{Update: sets.New[string](), TimedOut: sets.New[string]()}
	if strategy.Type == "" {
		strategy.Type = clusterv1alpha1.All
	}
	if !slices.ContainsFunc(clusters, func(c Cluster) bool { return c.Phase != Succeeded && c.Phase != Skipped }) {
		return plan, nil
	}
	groups := sdkv1beta1.ClusterGroupsMap{}
	for _, c := range clusters {
		if groups[c.Group] == nil {
			groups[c.Group] = sets.New[string]()
		}
		groups[c.Group].Insert(c.Name)
	}
	tracker := sdkv1beta1.NewPlacementDecisionClustersTrackerWithGroups(nil, nil, groups)
	mandatory := tracker.ExistingClusterGroups(mandatoryGroups(strategy)...)
	statuses, now := []sdkv1alpha1.ClusterRolloutStatus{}, sdkv1alpha1.RolloutClock.Now()
	for i := range clusters {
		c := &clusters[i]
		_, isMandatory := mandatory[c.Group]
		if c.Phase != Waiting { // the engine selects among the clusters without a status
			statuses = append(statuses, statusOf(c, isMandatory || strategy.Type == clusterv1alpha1.ProgressivePerGroup, now))
		}
	}
	handler, err := sdkv1alpha1.NewRolloutHandler[*Cluster](tracker, nil)
	if err != nil {
		return plan, err
	}
	_, result, err := handler.GetRolloutCluster(strategy, statuses)
	if err != nil {
		return plan, err
	}
	plan.Stopped = result.MaxFailureBreach
	if result.RecheckAfter != nil {
		plan.Recheck = *result.RecheckAfter
	}
	for _, s := range result.ClustersToRollout {
		if s.Status == sdkv1alpha1.ToApply {
			plan.Update.Insert(s.ClusterName)
		}
	}
	if strategy.Type == clusterv1alpha1.ProgressivePerGroup {
		plan.Update.Delete(listLater(result.ClustersToRollout)...)
	}
	for _, s := range result.ClustersTimeOut {
		plan.TimedOut.Insert(s.ClusterName)
	}
	return plan, nil
}

// listLater returns the clusters of all groups after the first group with a cluster that the rollout awaits. The engine counts the failed
// clusters of earlier groups as clusters of the group, and begins the next group too early when maxFailures permits failures.
func listLater(statuses []sdkv1alpha1.ClusterRolloutStatus) []string {
	first := int32(math.MaxInt32)
	for _, s := range statuses {
		if s.Status != sdkv1alpha1.Failed {
			first = min(first, s.GroupKey.GroupIndex)
		}
	}
	var out []string
	for _, s := range statuses {
		if s.GroupKey.GroupIndex > first {
			out = append(out, s.ClusterName)
		}
	}
	return out
}

// mandatoryGroups returns the keys of the groups that get a change before all other groups.
func mandatoryGroups(strategy clusterv1alpha1.RolloutStrategy) []sdkv1beta1.GroupKey {
	var groups []clusterv1alpha1.MandatoryDecisionGroup
	switch {
	case strategy.Type == clusterv1alpha1.Progressive && strategy.Progressive != nil:
		groups = strategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
	case strategy.Type == clusterv1alpha1.ProgressivePerGroup && strategy.ProgressivePerGroup != nil:
		groups = strategy.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups
	}
	var out []sdkv1beta1.GroupKey
	for _, g := range groups {
		if g.GroupName != "" { // OCM ignores the index of a named group
			out = append(out, sdkv1beta1.GroupKey{GroupName: g.GroupName})
			continue
		}
		out = append(out, sdkv1beta1.GroupKey{GroupIndex: g.GroupIndex})
	}
	return out
}

// maxClockSkew bounds how far the clock of a program that writes conditions may be ahead of the manager's clock.
const maxClockSkew = 5 * time.Minute

// statusOf translates a phase. A time in the future counts as unknown: the agent of a cluster, which may write the conditions of the cluster's
// add-ons, could otherwise keep a place among maxConcurrency past progressDeadline. Only another change helps a failed cluster: the engine counts the
// cluster as a failure that holds no place among maxConcurrency. Within groups, mandatory groups among these, the engine counts only a failure
// that is still among the clusters of its group.
func statusOf(c *Cluster, inGroup bool, now time.Time) sdkv1alpha1.ClusterRolloutStatus {
	out := sdkv1alpha1.ClusterRolloutStatus{ClusterName: c.Name, GroupKey: c.Group}
	since := metav1.NewTime(c.Since)
	if c.Since.After(now.Add(maxClockSkew)) {
		since = metav1.Time{}
	}
	out.LastTransitionTime = &since
	switch c.Phase {
	case Succeeded:
		out.Status = sdkv1alpha1.Succeeded
	case Skipped:
		out.Status = sdkv1alpha1.Skip
	case Failed, TimedOut:
		out.Status = sdkv1alpha1.TimeOut
		if inGroup {
			out.Status = sdkv1alpha1.Failed
		}
	case Progressing, Waiting:
		out.Status = sdkv1alpha1.Progressing
	}
	return out
}
