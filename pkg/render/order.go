// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sortObjects sorts by the rank of the kind and, within a rank, by identity, so that the order does not depend on how the
// manifests were written.
func sortObjects(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		x, y := objectIDOf(a), objectIDOf(b)
		return cmp.Or(
			cmp.Compare(rowOf(x.groupKind()).rank, rowOf(y.groupKind()).rank),
			cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
}
