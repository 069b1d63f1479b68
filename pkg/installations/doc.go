// Copyright Contributors to the Open Cluster Management project

// Package installations describes the installations of a hub to an operator: a component on a cluster, with either delivery mode.
//
// The package promises:
//   - A list of all installations costs a fixed number of lists in pages, and no request for a single cluster.
//   - Compose and the functions on its result are pure: equal objects and an equal time give equal text.
//   - A list that the hub refuses does not hide the others: Lister.List returns the objects that it could list together with the errors.
//   - Only Request.Apply writes, and writes the one annotation that the request names.
package installations
