// Copyright Contributors to the Open Cluster Management project

// Package hub holds the clients, the caches and the indexes of the hub, and writes objects of the hub.
//
//   - Every cache exists once. addon-framework and all controllers read the same caches.
//   - Start returns after every cache is full. The exceptions are kinds that a hub need not serve: ClusterProfiles, KnativeFleets and
//     the PlacementDecisions of SIG Multicluster.
//   - A cache holds only objects that the add-on needs, without metadata.managedFields. Cached works share equal manifests, options and
//     reports with the works of other clusters. A cached report lacks the lastTransitionTime of each condition of a manifest that is True.
//   - Patch sends only the fields that differ, with the resource version of the cached object: the API server refuses a patch of an
//     object that has changed.
//   - The clients of ManifestWorks and ManagedClusterAddOns send no write that an earlier write of this manager, not yet in the cache, lets fail.
//   - The package decides nothing, and imports neither a controller nor package target: a reader adds the indexes that the reader needs
//     before Start.
package hub
