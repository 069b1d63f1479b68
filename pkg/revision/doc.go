// Copyright Contributors to the Open Cluster Management project

// Package revision finds what an add-on's configuration says: from a reference in the status of a ManagedClusterAddOn to
// the Install that it names.
//
// An object is decoded once per version of it, however many clusters refer to it. The caller shares the Install and must
// not change it.
package revision
