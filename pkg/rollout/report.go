// Copyright Contributors to the Open Cluster Management project

package rollout

// Report is the finding of a delivery without a work agent about the rendering of a cluster.
type Report struct {
	// Rendering names the rendering of this manager for the cluster; empty while the manager delivers nothing, because of a
	// pause or a fault.
	Rendering string
	// Waits reports that the cluster has another rendering, which stays until the turn of the cluster.
	Waits bool
}
