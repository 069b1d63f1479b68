// Copyright Contributors to the Open Cluster Management project

// Package register connects a cluster that OCM does not manage to the hub, and disconnects the cluster. A registration consists of
// a ServiceAccount with a token and permissions on the cluster, and of a ClusterProfile and a Secret with the token on the hub.
//
// The package promises:
//   - An object that a registration did not create is neither changed nor deleted. Registration.Check refuses such an object before
//     the first write; an existing Namespace is used as the Namespace is.
//   - The hub gets a token only after the cluster has answered a request with the token.
//   - Every write can be repeated. A second registration updates the objects, and deletes roles of the first registration that are
//     not needed any more.
package register
