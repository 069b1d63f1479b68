// Copyright Contributors to the Open Cluster Management project

// Package render turns a KnativeServing or KnativeEventing into the objects that install the component on a cluster.
//
// The input is an Install, which Decode makes from the custom resource. The output is a Bundle: the objects in the order of
// their application, each with the strategy that keeps Knative alive, the expected workloads and Jobs, and a digest. The
// Knative Operator's own functions render (module knative.dev/operator, called as a library); this package makes the
// operator's output deliverable: every object once and under a fixed name, without the fields that the cluster fills,
// trimmed and ordered. docs/rendering.md lists every difference with its rule. kinds.go is the table of kinds for both
// deliveries.
//
// Contract:
//   - Render is a function of the Install, the Options and the Renderer's Config only: no clock, no environment, no map
//     order. Equal input has equal bytes and an equal digest on every machine.
//   - A Renderer renders equal content once, whatever the number of clusters; callers share one *Bundle and must not change
//     the Bundle. Any number of goroutines may call Render.
//   - A failure is an *Error with a Reason and a message that names the fault and the remedy. Bad input never panics.
//   - One Install cannot stop or slow down the program: limits.go and package api bound an Install, Installs of different
//     namespaces are rendered in turn, and a rendering that takes too long ends as an Error. Only this error depends on a
//     clock.
//   - The package does not talk to clusters. It uses the network for spec.manifests and spec.additionalManifests only, and
//     only for hosts that Config.RemoteManifests allows.
//
// The Knative Operator keeps a process-wide cache without a lock and reads KO_DATA_PATH and KUBERNETES_MIN_VERSION from the
// environment on every call. This package holds one lock around all calls of the operator's functions and sets both
// variables meanwhile; other callers of these functions in the process race with this package. Importing this package also
// registers the flags "clusterprofile-provider-file" and "remote-deployments-poll-interval" on flag.CommandLine (init
// functions of the operator): a command must not define these two flags there.
package render
