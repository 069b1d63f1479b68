// Copyright Contributors to the Open Cluster Management project

package hub

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// IsDetachedWithoutAgent reports whether a ManagedCluster was not Available when the deletion of the ManagedCluster began. OCM takes the permission to
// renew its Lease from the agent of a deleted ManagedCluster: a cluster that becomes unavailable after that may have a connected work agent.
func IsDetachedWithoutAgent(cluster *clusterv1.ManagedCluster) bool {
	if cluster.DeletionTimestamp == nil {
		return false
	}
	available := apimeta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	isTrue := apimeta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	return available == nil || !isTrue && !available.LastTransitionTime.After(cluster.DeletionTimestamp.Time)
}
