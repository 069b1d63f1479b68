// Copyright Contributors to the Open Cluster Management project

// Package configuration keeps the history of the KnativeServings and KnativeEventings of the hub. A pass over one resource
// takes three steps, in this order:
//
//  1. record.go stores every spec as a ControllerRevision, so that a cluster can keep the spec that OCM's rollout names after the
//     resource has another spec. OCM may refer to every spec that was in the cache, however short: the step records the object of each
//     event. AddOnDeploymentConfigs that configure an add-on of this manager get this step, too (deployments.go).
//  2. pin.go keeps an empty spec.version at the version to which it first resolved.
//  3. rollback.go writes the spec of a revision into the resource, as an annotation requests.
//
// A fault of one step does not stop the next. The package changes no ManagedClusterAddOn and no cluster: a new spec reaches the
// clusters through OCM's rollout.
package configuration
