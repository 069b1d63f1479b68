// Copyright Contributors to the Open Cluster Management project

// Package foundation keeps the first and the last of an installation: it delivers the foundation (the work agent's
// permissions, Namespace and CRDs) before anything that needs it, and removes an installation in the order in which it
// can be removed. Before the first of all it has the work agent look whether somebody else has the component on the cluster:
// then nothing is written.
//
// Every step is read from the cluster's works and their status, none is remembered: a manager that is killed goes on
// where it was. The finalizer of the ManagedClusterAddOn is there before the first object is delivered, and leaves after
// the last is gone.
package foundation
