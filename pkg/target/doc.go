// Copyright Contributors to the Open Cluster Management project

// Package target reads from the hub's caches what package resolve decides on: which cluster a KnativeServing or
// KnativeEventing is for, and which one of several has the cluster's add-on.
//
// A resource with spec.clusterProfileRef may have an add-on on one managed cluster only: the one whose name its
// ClusterProfile has. So its add-on is found by name, also when the ClusterProfile or the ManagedCluster is gone.
package target
