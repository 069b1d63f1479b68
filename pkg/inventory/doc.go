// Copyright Contributors to the Open Cluster Management project

// Package inventory records on a cluster what an owner has installed there, and decides whose installation a cluster has.
//
// The record is the anchor: a ConfigMap that the Knative Operator creates too, and that owns the namespaced objects of the
// installation. The anchor lists an object before the object is applied, so that pruning and removal depend on no memory of
// the manager. Every user of the cluster may edit the anchor. A caller therefore deletes an object only if the object's label
// and UID say that this add-on applied the object.
//
// The package reads and writes anchors only. It neither applies nor deletes the objects that an anchor lists.
package inventory
