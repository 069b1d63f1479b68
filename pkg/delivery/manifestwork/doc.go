// Copyright Contributors to the Open Cluster Management project

// Package manifestwork delivers bundles by ManifestWork. The package defines the works of a component, how the work agent keeps each
// kind of object, how to read the agent's reports, and the steps of a removal. The package builds and reads works and sends no
// requests.
//
// A component has three works on a cluster. The foundation (Namespace, CRDs, and the permissions of the work agent) belongs
// to this add-on and is the first work to arrive and the last to leave. The payload contains all other objects and belongs
// to addon-framework, so that OCM's rollouts and clusteradm see the payload. The gate, which brings no object, holds OCM's rollout until
// the cluster runs the payload.
package manifestwork
