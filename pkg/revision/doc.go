// Copyright Contributors to the Open Cluster Management project

// Package revision finds what an add-on's configuration says: from a reference in the status of a ManagedClusterAddOn to
// the Install that it names.
//
// OCM's rollout strategy moves clusters from one spec to the next by the hash of the spec. So a spec is what it was under
// its hash, not what the resource says by now: specs are kept as ControllerRevisions, which the resource owns. Whoever
// records them is package revisions of the controllers.
//
// A spec is decoded once, however many clusters refer to it, and found by looking into caches. The caller shares the
// Install and must not change it.
package revision
