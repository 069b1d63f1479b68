// Copyright Contributors to the Open Cluster Management project

package render

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// WorkloadsOf finds the workloads among objects that were rendered at some time, by whatever version of this package:
// what a cluster still has can be removed without rendering it again.
func WorkloadsOf(objects []*unstructured.Unstructured) []Workload {
	return (&draft{objects: objects}).workloads()
}
