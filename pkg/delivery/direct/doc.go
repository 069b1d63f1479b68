// Copyright Contributors to the Open Cluster Management project

// Package direct writes a bundle straight to a cluster's API server, keeps it there and removes it.
//
// What was written is recorded on the cluster itself, in the anchor: a ConfigMap that the Knative Operator makes too, and
// that owns the namespaced objects. It is written before anything that it records, so that pruning and removal depend on
// nobody's memory. Our label on every object, and its UID, say what may be deleted: the anchor could be edited by anybody
// on the cluster.
//
// Objects are applied server-side and with force. Drift is seen without reading objects: the API server keeps, for every
// field manager, which fields it owns, and takes a field away from it as soon as somebody else changes or removes it. So
// the watches are for metadata only, but for workloads, whose status is needed.
package direct
