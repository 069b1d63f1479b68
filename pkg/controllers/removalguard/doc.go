// Copyright Contributors to the Open Cluster Management project

// Package removalguard decides when the deletion of a ManagedClusterAddOn may remove the installation.
//
// OCM deletes the ManagedClusterAddOn of every cluster that its Placements stop selecting: also of a cluster that is only unreachable,
// and of all clusters when a Placement is deleted or a label mistyped. Package managedclusteraddon removes nothing before this
// package allows the removal. An add-on that is desired again passes all its works to a new ManagedClusterAddOn.
//
// One pass serves one component on all clusters, so that one worker counts the removals. The package keeps no state that the hub does
// not hold.
package removalguard
