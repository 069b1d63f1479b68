// Copyright Contributors to the Open Cluster Management project

// Package uninstall ends the use of a hub by this add-on. ListBlockers lists the objects that only a running manager removes in order.
// PlanRelease lists the steps that free the hub without a manager: clusters keep their objects, and no object of the hub waits
// for a manager any more.
package uninstall
