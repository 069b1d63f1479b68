// Copyright Contributors to the Open Cluster Management project

// Package scores reports to Placements how Knative runs on each cluster: AddOnPlacementScore "knative" in the cluster's namespace.
//
// The scores come from objects that the hub already has, so that no agent is necessary. A score that changes often moves workloads often.
// Therefore a lower score is written after a short delay and a higher score only after a longer time without a fault. A cluster without
// changes costs two writes a day. A cluster that is not available keeps its scores until the scores expire.
package scores
