// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// addClaims adds ClusterClaims for the installed version and the ingresses: OCM's registration agent copies ClusterClaims
// to the ManagedCluster, where Placements select by the claims. Only bundles for ManifestWorks have claims, since a cluster
// outside OCM does not serve the kind.
func addClaims(d *draft) error {
	if d.options.Mode != api.ModeManifestWork {
		return nil
	}
	if d.component == api.Eventing {
		d.addClaim(api.EventingVersionClaim, d.version)
		return nil
	}
	d.addClaim(api.ServingVersionClaim, d.version)
	if len(d.ingresses) > 0 { // the API has no empty claim
		// A Placement compares with label values, in which there is no comma.
		d.addClaim(api.IngressClaim, strings.Join(slices.Sorted(slices.Values(d.ingresses)), "_"))
	}
	return nil
}

// addClaim adds a ClusterClaim, unless the user's manifests contain the claim.
func (d *draft) addClaim(name, value string) {
	d.addObject(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
		"metadata": map[string]any{"name": name, "labels": map[string]any{nameLabel: string(d.component)}},
		"spec":     map[string]any{"value": value},
	}})
}
