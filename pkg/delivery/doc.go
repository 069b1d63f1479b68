// Copyright Contributors to the Open Cluster Management project

// Package delivery holds what both ways of delivery speak of: what was seen of an installation on a cluster. It is
// pure; the packages below it read and write.
package delivery
