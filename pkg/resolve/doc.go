// Copyright Contributors to the Open Cluster Management project

// Package resolve determines the cluster of spec.clusterProfileRef and the delivery mode, or explains why none is known. Resolve is pure.
//
// A ClusterProfile is only a claim: an author of a ClusterProfile can write any name, label and status. The claim counts when
//   - spec.clusterManager.name is open-cluster-management;
//   - label open-cluster-management.io/cluster-name and the name are both the name of the ManagedCluster, as OCM writes them;
//   - a Bound ManagedClusterSetBinding in the namespace has a ManagedClusterSet that contains the ManagedCluster. The binding proves
//     consent: OCM checks who may bind a set. The manager connects directly to the cluster of a profile of another cluster manager.
//
// An identity rule that objects leaves no Target; an availability rule that objects leaves the Target, because an unreachable cluster
// keeps its installation. The first objection is the reason, in the Knative Operator's order. A Result without Target is never a reason
// to remove: removals follow the last recorded target and the ManagedCluster.
package resolve
