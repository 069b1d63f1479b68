// Copyright Contributors to the Open Cluster Management project

// Package workload names the workloads and Jobs that an installation must bring up, and holds the state of a workload. pkg/render
// lists the workloads and Jobs, both delivery modes observe them, and pkg/status reports on them. The package imports the standard library only, so that
// the readers of an observation depend on no renderer.
package workload
