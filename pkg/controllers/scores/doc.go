// Copyright Contributors to the Open Cluster Management project

// Package scores tells Placements how Knative is on each cluster: AddOnPlacementScore "knative" in the cluster's namespace.
//
// Everything is read from what the hub knows already, so that there is no agent. A score is worth no more than its stability:
// what gets worse is written after a short pause, what gets better only once it has lasted, and a cluster at rest is
// written twice a day. A cluster out of sight keeps its scores until they expire, since nothing new is known of it.
package scores
