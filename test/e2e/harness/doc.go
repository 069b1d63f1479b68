// Copyright Contributors to the Open Cluster Management project

// Package harness installs the add-on on a lab's hub as a user would: the chart with the real helm, the manager under the
// ServiceAccount and RBAC of the chart (as a process, since a lab pulls no image), and the add-ons with the real
// clusteradm.
package harness
