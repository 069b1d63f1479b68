// Copyright Contributors to the Open Cluster Management project

// Package boundedhttptest imitates hostile API servers for tests of the packages that read responses of clusters.
package boundedhttptest
