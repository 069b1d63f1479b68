// Copyright Contributors to the Open Cluster Management project

// Package remote fetches manifests that users name by URL, from a process inside the hub's network.
//
// Contract: the package fetches only from hosts on the administrator's list, only by https, and without a proxy. A redirect
// stays on the host. The address after name resolution must be public, unless the administrator lists the network. A
// deadline and a size limit hold for the complete fetch. Documents are cached, and failures for a while: the network sees
// one request per URL and digest, not one per reconciliation.
//
// The caller says which addresses are public; the package imports no other package of this module.
package remote
