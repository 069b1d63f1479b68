// Copyright Contributors to the Open Cluster Management project

// Package work delivers bundles by ManifestWork: which works there are, how the work agent keeps each kind of object,
// what it reports back, and in which steps an installation is removed. It builds and reads works and makes no request.
//
// A component is two works on a cluster. The foundation (Namespace, CRDs, and the permissions that the work agent needs)
// is ours: first in, last out. The payload is everything else and belongs to addon-framework, so that OCM's rollouts and
// clusteradm see it.
package work
