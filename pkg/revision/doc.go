// Copyright Contributors to the Open Cluster Management project

// Package revision finds the configuration of an add-on: from a reference in the status of a ManagedClusterAddOn to the Install with the
// decoded spec.
//
// OCM's rollout strategy moves clusters from spec to spec by the hash of the spec. Therefore a hash always leads to the spec that had
// the hash, not to the present spec of the resource: ControllerRevisions, which the resource owns, keep the specs. Package
// controllers/configuration records these revisions. An AddOnDeploymentConfig has the same history as a KnativeServing.
//
// Specs decodes a spec once, however many clusters refer to the spec, and reads caches only. The callers share the Install and must
// not change the Install.
package revision
