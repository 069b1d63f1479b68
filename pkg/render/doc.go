// Copyright Contributors to the Open Cluster Management project

// Package render turns a KnativeServing or KnativeEventing into the objects that install the component on a cluster. Decode returns the
// Install, Render the Bundle: ordered objects with their strategies, the expected workloads and Jobs, and a digest. The functions of
// the Knative Operator render (operator.go); docs/rendering.md lists every difference, and kinds.go is the table of kinds.
//
//   - Render is a function of the Install, the Options and the Config alone, without a clock, the environment or the order of a map:
//     equal input has equal bytes on every machine.
//   - A Renderer renders equal content once; callers share one *Bundle and must not change the Bundle. Any number of goroutines may call.
//   - A failure is an *Error with a Reason, the fault and the remedy. Bad input never panics.
//   - One Install cannot stop the program: limits.go and package api bound an Install, Installs of different namespaces are rendered in
//     turn, and a rendering that takes too long ends as an Error. Only this error depends on a clock.
//   - The package talks to no cluster, and fetches documents of a spec only from hosts that Config.RemoteManifests allows.
package render
