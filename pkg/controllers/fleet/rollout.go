// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	sdkv1alpha1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// rolloutPlan says which clusters get the revision now.
type rolloutPlan struct {
	// update holds the names of the clusters that get the revision now.
	update sets.Set[string]
	// stopped reports whether more clusters failed than maxFailures permits.
	stopped bool
	// recheck is the time until the plan may change without an event; 0 means that only an event changes the plan.
	recheck time.Duration
}

// planRollout determines, with OCM's engine, the clusters that get the revision now, and sets the phase of the clusters that exceeded
// progressDeadline.
func planRollout(strategy clusterv1alpha1.RolloutStrategy, clusters []clusterState) (rolloutPlan, *problem) {
	plan := rolloutPlan{update: sets.New[string]()}
	if strategy.Type == "" {
		strategy.Type = clusterv1alpha1.All
	}
	groups, statuses := sdkv1beta1.ClusterGroupsMap{}, []sdkv1alpha1.ClusterRolloutStatus{}
	settled := true
	for i := range clusters {
		c := &clusters[i]
		settled = settled && (c.phase == phaseSucceeded || c.phase == phaseSkipped)
		if groups[c.group] == nil {
			groups[c.group] = sets.New[string]()
		}
		groups[c.group].Insert(c.name)
		if c.phase != phaseWaiting { // the engine selects among the clusters without a status
			statuses = append(statuses, rolloutStatus(strategy.Type, c))
		}
	}
	if settled {
		return plan, nil
	}
	tracker := sdkv1beta1.NewPlacementDecisionClustersTrackerWithGroups(nil, nil, groups)
	handler, err := sdkv1alpha1.NewRolloutHandler[*clusterState](tracker, nil)
	if err != nil {
		return plan, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf("the rollout cannot be determined: %v", err)}
	}
	_, result, err := handler.GetRolloutCluster(strategy, statuses)
	if err != nil {
		return plan, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.rolloutStrategy cannot be used; correct the strategy: %v", err)}
	}
	plan.stopped = result.MaxFailureBreach
	if result.RecheckAfter != nil {
		plan.recheck = *result.RecheckAfter
	}
	for _, s := range result.ClustersToRollout {
		if s.Status == sdkv1alpha1.ToApply {
			plan.update.Insert(s.ClusterName)
		}
	}
	markTimedOut(clusters, result.ClustersTimeOut)
	return plan, nil
}

// rolloutStatus translates a phase. Only another spec helps a failed cluster: Progressive counts the cluster as a failure that holds no
// place among maxConcurrency. ProgressivePerGroup counts only a failure that is still among the clusters of its group.
func rolloutStatus(strategy clusterv1alpha1.RolloutType, c *clusterState) sdkv1alpha1.ClusterRolloutStatus {
	out := sdkv1alpha1.ClusterRolloutStatus{ClusterName: c.name, GroupKey: c.group}
	since := metav1.NewTime(c.since)
	out.LastTransitionTime = &since
	switch c.phase {
	case phaseSucceeded:
		out.Status = sdkv1alpha1.Succeeded
	case phaseSkipped:
		out.Status = sdkv1alpha1.Skip
	case phaseFailed, phaseTimedOut:
		out.Status = sdkv1alpha1.TimeOut
		if strategy == clusterv1alpha1.ProgressivePerGroup {
			out.Status = sdkv1alpha1.Failed
		}
	case phaseProgressing, phaseWaiting:
		out.Status = sdkv1alpha1.Progressing
	}
	return out
}

func markTimedOut(clusters []clusterState, timedOut []sdkv1alpha1.ClusterRolloutStatus) {
	names := sets.New[string]()
	for _, s := range timedOut {
		names.Insert(s.ClusterName)
	}
	for i := range clusters {
		if clusters[i].phase == phaseProgressing && names.Has(clusters[i].name) {
			clusters[i].phase, clusters[i].reason = phaseTimedOut, fleetv1alpha1.ReasonTimedOut
		}
	}
}
