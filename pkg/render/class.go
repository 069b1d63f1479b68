// Copyright Contributors to the Open Cluster Management project

package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Class says how an object is kept on a spoke. What deviates from it breaks Knative: docs/rendering.md says how.
type Class string

const (
	// Apply is server-side apply with force, whenever it changes and to repair drift. Fields that are not in the object
	// belong to the spoke.
	Apply Class = "Apply"
	// Update replaces the object where it differs. Nothing on the spoke writes to these objects, but for the rules of
	// aggregated ClusterRoles, which must survive an update. No bundled version changes the roleRef of a binding, which no
	// update can.
	Update Class = "Update"
	// CreateOnly creates the object when it is absent and never writes to it again: the spoke fills it.
	CreateOnly Class = "CreateOnly"
	// OncePerVersion creates the object, a Job, once: not again after it has finished and was removed, and never as an
	// update, since a Job cannot be changed. Its name has the version.
	OncePerVersion Class = "OncePerVersion"
)

// classify is the strategy of an object, and whether it is orphaned on removal.
func (d *draft) classify(u *unstructured.Unstructured) (Class, bool) {
	gvk := u.GroupVersionKind()
	switch {
	case isFoundation(u):
		return Apply, true
	case gvk.Group == "batch" && gvk.Kind == "Job":
		return OncePerVersion, false
	case gvk.Group == "rbac.authorization.k8s.io", gvk.Group == "" && gvk.Kind == "ServiceAccount":
		return Update, false
	case gvk.Group == "" && gvk.Kind == "Secret" && !(d.users[idOf(u)] && hasSecretData(u)):
		return CreateOnly, false
	default:
		return Apply, false
	}
}

// hasSecretData tells whether a Secret says anything. Knative's releases ship Secrets that say nothing, or placeholders,
// and expect somebody on the cluster to fill them.
func hasSecretData(u *unstructured.Unstructured) bool {
	for _, field := range []string{"data", "stringData"} {
		data, _, _ := unstructured.NestedMap(u.Object, field)
		for _, v := range data {
			if v != "" && v != nil {
				return true
			}
		}
	}
	return false
}

func isFoundation(u *unstructured.Unstructured) bool {
	gvk := u.GroupVersionKind()
	return gvk.Group == "" && gvk.Kind == "Namespace" ||
		gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}
