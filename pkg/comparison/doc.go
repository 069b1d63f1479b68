// Copyright Contributors to the Open Cluster Management project

// Package comparison shows an operator how the resources of a file, or a manager that renders differently, would change the clusters of
// a hub.
//
// The package promises:
//   - Compare and CompareInstalled write nothing, and send requests to the hub alone.
//   - A comparison costs the lists of package installations, at most three further lists, and one list of ManifestWorks for each group of
//     clusters that have equal ManifestWorks and get equal objects. CompareInstalled also reads each ControllerRevision once that OCM
//     wants for a cluster instead of a present spec.
//   - Values of Secrets are never part of a difference.
//   - Equal changes of clusters are one Group, in a stable order.
package comparison
