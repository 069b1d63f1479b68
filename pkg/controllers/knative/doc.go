// Copyright Contributors to the Open Cluster Management project

// Package knative reconciles KnativeServings and KnativeEventings. A resource whose spec.clusterProfileRef leads to a managed
// cluster enables the add-on there, with the resource as the configuration of the add-on; addon-framework and package
// managedclusteraddon then write ManifestWorks. A resource whose reference leads to a cluster without a work agent, and a resource for
// the hub itself, is applied by the manager directly. Any other resource without a reference configures the add-on for many
// clusters, and the status of the resource counts the clusters.
//
// The state is in the API: spec.configs of an add-on names the resource that owns the add-on, and a ConfigMap on the cluster
// records a direct installation (see package delivery/direct). The memory of the manager holds only connections, recent
// repairs and pauses.
package knative
