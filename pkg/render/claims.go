// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// addClaims has the cluster claim what it runs: OCM's registration agent copies ClusterClaims to the ManagedCluster, where
// Placements can select by them. Only pull has them, since a cluster that OCM does not manage does not know the kind.
func addClaims(d *draft) error {
	if d.options.Mode != Pull {
		return nil
	}
	if d.component == api.Eventing {
		d.claim(api.EventingVersionClaim, d.version)
		return nil
	}
	d.claim(api.ServingVersionClaim, d.version)
	if len(d.ingresses) > 0 { // the API has no empty claim
		// A Placement compares with label values, in which there is no comma.
		d.claim(api.IngressClaim, strings.Join(slices.Sorted(slices.Values(d.ingresses)), "_"))
	}
	return nil
}

// claim adds a ClusterClaim, unless the manifests of the user have it.
func (d *draft) claim(name, value string) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
		"metadata": map[string]any{"name": name, "labels": map[string]any{nameLabel: string(d.component)}},
		"spec":     map[string]any{"value": value},
	}}
	if !slices.ContainsFunc(d.objects, func(o *unstructured.Unstructured) bool { return idOf(o) == idOf(u) }) {
		d.objects = append(d.objects, u)
	}
}
