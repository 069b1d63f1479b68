// Copyright Contributors to the Open Cluster Management project

// Package trust holds the administrator's decisions about authors. Every namespace may install Knative on the clusters that
// are bound to the namespace. A trusted namespace may also deliver objects and options that exceed Knative: permissions,
// webhooks, privileged pods, images of any registry, the adoption of an installation, and the deletion of users' resources.
// Inventories decide for authors of ClusterProfiles which servers may receive which credentials.
//
// The package is pure and imports no other package of this module, because the renderer depends on package trust.
// docs/security.md describes the model.
package trust
