// Copyright Contributors to the Open Cluster Management project

// Package imageregistry checks whether images exist in their registries.
//
// The package promises:
//   - A Checker reads manifests alone, and writes nothing.
//   - A registry that does not answer, or that refuses access, is never reported as a missing image.
//   - The number of requests at a time, and the time for each image, have limits.
package imageregistry
