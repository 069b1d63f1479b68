// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"fmt"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// A removal with the resources of users deletes the CRDs before the payload, because the controllers of the payload handle the
// finalizers of these resources. For that the CRDs move from the foundation to a work of their own, whose end on the hub proves the
// end of the CRDs on the cluster.

// CRDsName returns the name of the work with the component's CRDs in the cluster's namespace. The work exists only during a removal.
func CRDsName(c api.Component) string { return c.AddOnName() + "-crds" }

// CRDs returns a work that owns the CRDs of the foundation that an add-on has created; nil when the foundation has none.
func CRDs(c api.Component, foundation *workv1.ManifestWork, addon *addonv1beta1.ManagedClusterAddOn) (*workv1.ManifestWork, error) {
	created, _, err := splitCreatedCRDs(foundation)
	if err != nil || len(created) == 0 {
		return nil, err
	}
	work := &workv1.ManifestWork{ObjectMeta: foundationMeta(c, addon), Spec: workv1.ManifestWorkSpec{
		Workload: workv1.ManifestsTemplate{Manifests: created}, ManifestConfigs: foundationConfigs(), Executor: foundation.Spec.Executor,
	}}
	work.Name = CRDsName(c)
	return work, nil
}

// WithoutCreatedCRDs returns the foundation without the CRDs that an add-on has created; nil when the foundation has none.
func WithoutCreatedCRDs(foundation *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	created, others, err := splitCreatedCRDs(foundation)
	if err != nil || len(created) == 0 {
		return nil, err
	}
	out := foundation.DeepCopy()
	out.Spec.Workload.Manifests = others
	return out, nil
}

// OwningCRDs returns the work with the CRDs as the owner of the CRDs; nil when the work is no orphan.
func OwningCRDs(crds *workv1.ManifestWork) *workv1.ManifestWork {
	if !IsOrphaned(crds) {
		return nil
	}
	return notOrphaned(crds)
}

// splitCreatedCRDs returns the manifests of the CRDs that an add-on has created, and all other manifests.
func splitCreatedCRDs(foundation *workv1.ManifestWork) (created, others []workv1.Manifest, err error) {
	objects, err := manifestsOf(foundation)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot find the CRDs that the add-on has created: %w", err)
	}
	for i, o := range objects {
		if isCRD := o.GetKind() == "CustomResourceDefinition"; isCRD && o.GetAnnotations()[api.CreatedByHubAnnotation] != "" {
			created = append(created, foundation.Spec.Workload.Manifests[i])
			continue
		}
		others = append(others, foundation.Spec.Workload.Manifests[i])
	}
	return created, others, nil
}
