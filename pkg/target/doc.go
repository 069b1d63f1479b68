// Copyright Contributors to the Open Cluster Management project

// Package target gathers, from the hub's caches, the facts for package resolve, and determines which resource owns the
// add-on of a cluster.
//
// A resource with spec.clusterProfileRef may have an add-on on one managed cluster only: the cluster with the name of the
// ClusterProfile. The add-on is therefore found by name, also without the ClusterProfile or the ManagedCluster.
package target
