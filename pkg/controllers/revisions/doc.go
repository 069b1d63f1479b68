// Copyright Contributors to the Open Cluster Management project

// Package revisions records every spec of a KnativeServing or KnativeEventing as a ControllerRevision, so that a cluster
// can have what OCM's rollout says also when the resource says something else by now.
//
// What is recorded is the object of each event, not what the resource says when its turn has come: OCM may refer to any
// spec that was in the cache, however short. The last ten revisions are kept, and those that OCM refers to.
package revisions
