// Copyright Contributors to the Open Cluster Management project

// Package guard stands between the deletion of a ManagedClusterAddOn and the removal of what it installed.
//
// OCM deletes the ManagedClusterAddOn of every cluster that its Placements do not select any more: also of one that is
// only unreachable, and of all when a Placement is deleted or a label mistyped. Package foundation removes nothing before
// the guard has allowed it. What is wanted again goes, with all its works, to a new ManagedClusterAddOn.
//
// One reconcile serves one component on all clusters, so that removals are counted by one. Nothing is remembered that
// the hub does not hold.
package guard
