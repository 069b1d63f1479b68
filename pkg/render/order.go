// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rank is the place of a kind in the order of application: what others need comes first. Objects whose admission runs
// through Knative's own webhooks come after the workloads that serve these, and what depends on other products comes
// last, so that its absence holds up nothing.
func rank(gk schema.GroupKind) int {
	switch gk.Group {
	case "":
		switch gk.Kind {
		case "Namespace":
			return 0
		case "ServiceAccount":
			return 10
		case "ConfigMap", "Secret":
			return 20
		case "Service":
			return 30
		}
	case "apiextensions.k8s.io":
		return 1
	case "rbac.authorization.k8s.io":
		switch gk.Kind {
		case "ClusterRole", "Role":
			return 11
		default:
			return 12
		}
	case "apps":
		return 40
	case "autoscaling", "policy":
		return 41
	case "admissionregistration.k8s.io":
		return 50
	case "batch":
		return 70
	case "caching.internal.knative.dev":
		return 80
	case "networking.internal.knative.dev":
		return 81
	case "cert-manager.io", "trust.cert-manager.io", "networking.istio.io", "security.istio.io",
		"gateway.networking.k8s.io", "projectcontour.io":
		return 82
	case "cluster.open-cluster-management.io": // tells of all the others
		return 90
	}
	return 60
}

// order sorts by rank and, within a rank, by identity: the order does not depend on how the manifests were written.
func order(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		x, y := idOf(a), idOf(b)
		return cmp.Or(
			cmp.Compare(rank(schema.GroupKind{Group: x.Group, Kind: x.Kind}), rank(schema.GroupKind{Group: y.Group, Kind: y.Kind})),
			cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
}
