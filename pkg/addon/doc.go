// Copyright Contributors to the Open Cluster Management project

// Package addon implements the add-ons for addon-framework: it selects the objects that a cluster gets, and the options that the
// work agent applies the objects with.
//
// DetermineDelivery decides how far the delivery to a cluster may go. The function is pure, and stands here because two callers
// use it: addon-framework, for the payload, and package managedclusteraddon, for all other works.
//
// Manifests never returns an empty list, because the framework would delete the works: Manifests returns an error for every state
// without a payload, and an error leaves the works as they are.
//
// The package takes listers, and does not import package hub.
package addon
