// Copyright Contributors to the Open Cluster Management project

// Package fleet reconciles KnativeFleets. A KnativeFleet selects ClusterProfiles of its namespace, and the package writes one
// KnativeServing or KnativeEventing with spec.clusterProfileRef for each. Package knative installs these children as every other
// resource: package fleet writes to no cluster.
//
// One pass selects the clusters (select.go), reads the state of the children (state.go), determines which clusters get the revision of
// the templates now (rollout.go, with OCM's engine) and which children go (removal.go), writes the children (children.go), and reports
// (status.go). Everything but the writes is pure.
//
// The state is in the API: annotations of a child hold the revision and the time of the child, and the status of the KnativeFleet
// counts the removals of the last hour. A restarted manager continues a rollout.
package fleet
