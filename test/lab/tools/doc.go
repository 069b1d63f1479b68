// Copyright Contributors to the Open Cluster Management project

// Package tools builds the programs of the lab from the pinned Go modules in its subdirectories and caches them outside
// of the checkout.
//
// Each subdirectory is a module of its own, because the programs need versions of Kubernetes libraries that cannot live
// in one module (OCM 1.2.1 does not compile with the add-on API that clusteradm 1.3.1 needs). Their common dependencies
// are pinned to the same versions, so that one compile of a package serves all of them.
//
// A group of programs is cached under a key of its go.mod, go.sum, sources, build flags and Go version: as long as none
// of them changes, nothing is built again.
package tools
