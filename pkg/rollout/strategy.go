// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// WithPlacement returns the rollout strategy for the clusters of a Placement with OCM's default: maxConcurrency of a Progressive strategy is the
// number of clusters in a decision group of the Placement.
func WithPlacement(strategy clusterv1alpha1.RolloutStrategy, placement *clusterv1beta1.Placement) clusterv1alpha1.RolloutStrategy {
	if strategy.Type != clusterv1alpha1.Progressive {
		return strategy
	}
	out := *strategy.DeepCopy()
	if out.Progressive == nil {
		out.Progressive = &clusterv1alpha1.RolloutProgressive{}
	}
	if limit := &out.Progressive.MaxConcurrency; limit.StrVal == "" && limit.IntVal == 0 {
		*limit = placement.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup
	}
	return out
}
