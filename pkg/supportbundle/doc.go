// Copyright Contributors to the Open Cluster Management project

// Package supportbundle collects the state of a hub, for a support case, in an archive without credentials.
//
// The package promises:
//   - Collect reads the hub alone, writes nothing to the hub, and never reads a Secret or a ConfigMap.
//   - The archive has no manifest of a ManifestWork: a manifest is present as its name and, unless the manifest is a Secret, its digest.
//   - Values of environment variables, values under names of credentials, and texts that look like credentials are withheld.
//   - A list that fails is reported in the archive, and does not hide the others.
//   - Collect sends a fixed number of lists in pages, and one list of ManifestWorks for each of at most MaxClusters clusters.
package supportbundle
