// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// OCM drops an unreachable cluster from the decisions of Placements, and selects the cluster again after the return. No API tells
// whether a Placement was decided since: OCM writes a decision only when the decision changes. Time is no evidence, because OCM's
// placement controller may be stopped, and because the agent of the cluster writes the time of the return by its own clock. The
// evidence is the Placement itself: a Placement that cannot select the cluster has decided against the cluster. OCM still has to
// decide on any other Placement, so that the installation stays.

// decidedPlacement is a Placement with the number of clusters in its decisions.
type decidedPlacement struct {
	*clusterv1beta1.Placement

	clusters int
}

// hasReturned reports whether the add-on was deleted while the cluster was unavailable. The removal guard has held such an add-on
// before, unless no manager ran at that time; then the times of the hub and of the cluster decide, unless OCM reports that the two clocks
// differ: a deletion before the return is possible then.
func hasReturned(p *pendingRemoval, cluster *clusterv1.ManagedCluster) bool {
	if reason := heldReason(p.ManagedClusterAddOn); reason != "" {
		return reason == api.ReasonClusterUnavailable || reason == api.ReasonPlacementUndecided
	}
	if apimeta.IsStatusConditionFalse(cluster.Status.Conditions, clusterv1.ManagedClusterConditionClockSynced) {
		return true
	}
	available := apimeta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	return available != nil && p.DeletionTimestamp.Before(&available.LastTransitionTime)
}

// findUndecidedPlacement returns the name of a Placement that may select the cluster; empty without such a Placement.
func (s *scope) findUndecidedPlacement(cluster *clusterv1.ManagedCluster) string {
	for _, p := range s.placements {
		if p.maySelect(cluster) {
			return p.Namespace + "/" + p.Name
		}
	}
	return ""
}

// maySelect reports whether OCM may select the cluster for the Placement: the Placement lacks clusters, and its cluster sets,
// tolerations and selectors admit the cluster. CEL selectors and scores are not evaluated.
func (p *decidedPlacement) maySelect(cluster *clusterv1.ManagedCluster) bool {
	if wanted := p.Spec.NumberOfClusters; wanted != nil && p.clusters >= int(*wanted) {
		return false
	}
	of := []string{cluster.Labels[clusterv1beta2.ClusterSetLabel], "global"} // set global has every cluster
	if sets := p.Spec.ClusterSets; len(sets) > 0 && !slices.ContainsFunc(sets, func(set string) bool { return slices.Contains(of, set) }) {
		return false
	}
	if slices.ContainsFunc(cluster.Spec.Taints, func(t clusterv1.Taint) bool { return !p.tolerates(t) }) {
		return false
	}
	return len(p.Spec.Predicates) == 0 || slices.ContainsFunc(p.Spec.Predicates, func(predicate clusterv1beta1.ClusterPredicate) bool {
		return admits(&predicate.RequiredClusterSelector, cluster)
	})
}

// MaySelect reports whether OCM may select the cluster for a Placement with a number of clusters in its decisions. OCM removes the taints of an
// unreachable cluster after the return of the cluster.
func MaySelect(placement *clusterv1beta1.Placement, clusters int, cluster *clusterv1.ManagedCluster) bool {
	returned := cluster.DeepCopy()
	returned.Spec.Taints = slices.DeleteFunc(returned.Spec.Taints, isUnreachableTaint)
	return (&decidedPlacement{placement, clusters}).maySelect(returned)
}

// tolerates reports whether a taint leaves the cluster to the Placement. The end of a toleration is not evaluated.
func (p *decidedPlacement) tolerates(t clusterv1.Taint) bool {
	return t.Effect == clusterv1.TaintEffectPreferNoSelect || slices.ContainsFunc(p.Spec.Tolerations, func(of clusterv1beta1.Toleration) bool {
		return (of.Key == "" || of.Key == t.Key) && (of.Operator == clusterv1beta1.TolerationOpExists || of.Value == t.Value) &&
			(of.Effect == "" || of.Effect == t.Effect)
	})
}

// admits reports whether labels and claims of the cluster match the selector. OCM reports an invalid selector on the Placement.
func admits(selector *clusterv1beta1.ClusterSelector, cluster *clusterv1.ManagedCluster) bool {
	claims := labels.Set{}
	for _, c := range cluster.Status.ClusterClaims {
		claims[c.Name] = c.Value
	}
	byLabels, labelsErr := metav1.LabelSelectorAsSelector(&selector.LabelSelector)
	byClaims, claimsErr := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: selector.ClaimSelector.MatchExpressions})
	return labelsErr != nil || claimsErr != nil || byLabels.Matches(labels.Set(cluster.Labels)) && byClaims.Matches(claims)
}
