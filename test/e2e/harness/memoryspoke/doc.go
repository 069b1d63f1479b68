// Copyright Contributors to the Open Cluster Management project

// Package memoryspoke serves clusters without a work agent from memory. A Spoke is an HTTPS server in the process of the caller, with
// its own address, token, namespace kube-system and UID, and holds about 1 MB of objects with Knative Serving: one process serves hundreds of
// spokes. The package serves the requests that direct delivery makes: discovery of one group and version, get, list and watch of objects or
// of their metadata, create, update, server-side apply and delete.
//
// Every Deployment, StatefulSet and Job is rolled out, or complete, as soon as the object is written. A kind is served when Kubernetes
// has the kind, or when the spoke has the CustomResourceDefinition of the kind.
//
// A Spoke is not Kubernetes: schemas, admission, quotas, permissions, finalizers and garbage collection do not exist, an apply replaces
// the whole object, and a deletion ends at once. Nothing proves here that a cluster accepts an object.
package memoryspoke
