// Copyright Contributors to the Open Cluster Management project

// Package managedclusteraddon reconciles the add-on of one cluster.
//
// The controller writes all works but the payload, which addon-framework writes: the probe, which reports the owner of the component
// on the cluster, the foundation (permissions of the work agent, Namespace and CRDs), and the gate, which holds OCM's rollout. The
// controller sets the conditions of the add-on, makes the work agent repair drift, and removes an installation in the only order in
// which the installation can be removed. addon.DetermineDelivery decides how far a delivery may go.
//
// Every step is derived from the works and their status, and no step is kept in memory: a restarted manager continues the delivery.
// The finalizer of the ManagedClusterAddOn is set before the first object is delivered, and released after the last object is gone.
package managedclusteraddon
