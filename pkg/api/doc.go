// Copyright Contributors to the Open Cluster Management project

// Package api holds the names that users and clusters see: add-on names, keys of labels and annotations, finalizers, condition
// types and reasons. The package imports no other package of this module.
package api
