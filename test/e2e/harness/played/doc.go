// Copyright Contributors to the Open Cluster Management project

// Package played plays managed clusters on a real hub: ManagedClusters without an API server or a node. Clusters plays the registration
// agents, which keep the clusters Available. Agents plays the work agents, which report each ManifestWork as applied and running. The
// hub's controllers cannot tell a played cluster from a real cluster, and a hub can have a thousand played clusters on one machine.
//
// A played cluster has no objects: nothing proves that a payload can be applied.
package played
