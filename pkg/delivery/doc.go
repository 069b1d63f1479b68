// Copyright Contributors to the Open Cluster Management project

// Package delivery holds the Observation of an installation on a cluster, in which both delivery modes report. The package
// is pure and does not import package render; the packages below read and write.
package delivery
