// Copyright Contributors to the Open Cluster Management project

// Package addon is what addon-framework asks of an add-on: which objects a cluster should have, how the work agent keeps
// them, and whether they are healthy.
//
// Manifests never returns an empty list, which would delete the works: what cannot be rendered, and a foundation that is
// not applied yet, are errors, and an error leaves the works as they are.
package addon
