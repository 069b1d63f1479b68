// Copyright Contributors to the Open Cluster Management project

// Package render turns a KnativeServing or KnativeEventing into the objects that install it on a cluster.
//
// Input is an Install, made by Decode from the custom resource as users write it; output is a Bundle: the objects in
// the order in which they can be applied, each with the strategy that keeps Knative alive, the workloads and Jobs to
// expect, and a digest. The Knative Operator's own functions render (module knative.dev/operator, called as a
// library); this package makes what they emit deliverable: every object once and under a fixed name, without the
// fields that the spoke fills itself, trimmed and ordered. docs/rendering.md lists every difference, each by a rule.
//
// Contract:
//   - Render is a function of the Install, the Options and the Renderer's Config, and of nothing else: no clock, no
//     environment, no map order. The same input gives the same bytes and the same digest on every machine.
//   - Equal content is rendered once per Renderer, whatever the number of clusters; callers share one *Bundle and must
//     not change it. Render may be called from any number of goroutines.
//   - A failure is an *Error with a Reason and a message that says what is wrong and what to do. Bad input never panics.
//   - Nothing here talks to a cluster. The network is used for spec.manifests and spec.additionalManifests only, and
//     only to hosts that Config.RemoteManifests allows.
//
// The Knative Operator keeps a process-wide cache without a lock and reads KO_DATA_PATH and KUBERNETES_MIN_VERSION
// from the environment on every call. This package holds one lock around all calls into it and sets both variables
// while it does; code that calls the same functions elsewhere in the process races with it. Importing this package
// also registers the flags "clusterprofile-provider-file" and "remote-deployments-poll-interval" on flag.CommandLine
// (init functions of the operator): a command must not define these two there itself.
package render
