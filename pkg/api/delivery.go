// Copyright Contributors to the Open Cluster Management project

package api

// DeliveryMode says how objects reach a cluster.
type DeliveryMode string

const (
	// ModeManifestWork delivers through ManifestWorks, which OCM's work agent applies on the cluster. The hub stores the
	// whole bundle once per cluster.
	ModeManifestWork DeliveryMode = "ManifestWork"
	// ModeDirect delivers from the hub to the cluster's API server, through an access provider of the ClusterProfile.
	ModeDirect DeliveryMode = "Direct"
)
