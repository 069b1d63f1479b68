// Copyright Contributors to the Open Cluster Management project

// Package api holds the names that users and clusters see: add-on names, label and annotation keys, finalizers,
// condition types and reasons. It imports nothing of ours.
package api
