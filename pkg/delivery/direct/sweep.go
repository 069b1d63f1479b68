// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
)

// sweptKinds are kinds of Kubernetes that Knative's releases have objects of, by resource. Namespaces are not among them:
// without the anchor nobody knows who made them.
func sweptKinds() map[schema.GroupVersionResource]string {
	return map[schema.GroupVersionResource]string{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}:               "CustomResourceDefinition",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}:                       "ClusterRole",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}:                "ClusterRoleBinding",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}:                              "Role",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}:                       "RoleBinding",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}:   "MutatingWebhookConfiguration",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}: "ValidatingWebhookConfiguration",
		{Group: "apps", Version: "v1", Resource: "deployments"}:                                             "Deployment",
		{Group: "apps", Version: "v1", Resource: "statefulsets"}:                                            "StatefulSet",
		{Version: "v1", Resource: "services"}:                                                               "Service",
	}
}

// sweep is what there is to be removed: what the anchor records or, when somebody has deleted it, what has our label.
func (i *Installation) sweep(ctx context.Context, a *anchor) (inventory, error) {
	if a != nil && len(a.inventory) > 0 {
		return a.inventory, nil
	}
	inv := inventory{}
	for gvr, kind := range sweptKinds() {
		list, err := i.cluster.metadata.Resource(gvr).List(ctx, metav1.ListOptions{LabelSelector: api.ComponentLabel + "=" + string(i.owner.Component)})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", gvr.GroupResource(), err)
		}
		for _, o := range list.Items {
			if ownedFields(o.ManagedFields) == "" { // somebody's copy
				continue
			}
			e := entry{
				Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
			}
			inv[e.id()] = e
		}
	}
	return inv, nil
}

// clearUserResources looks for resources of users of the kinds that are to go, and deletes them if that is asked for,
// while what finalizes them still runs.
func (i *Installation) clearUserResources(ctx context.Context, inv inventory, options RemoveOptions) (waiting string, err error) {
	found, refused := map[string]int64{}, ""
	for _, e := range inv.sorted() {
		if e.Kind != "CustomResourceDefinition" {
			continue
		}
		gvr, err := i.definedBy(ctx, &e)
		if err != nil {
			return "", err
		}
		if gvr.Empty() {
			continue
		}
		n, why, err := i.userResources(ctx, gvr, options.UserResources)
		if err != nil {
			return "", err
		}
		refused = cmp.Or(refused, why)
		if n > 0 {
			found[gvr.GroupResource().String()] = n
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	var names []string
	for _, resource := range slices.Sorted(maps.Keys(found)) {
		names = append(names, fmt.Sprintf("%d %s", found[resource], resource))
	}
	text := delivery.Listed(names)
	if options.UserResources {
		return "waiting for resources of users to be gone: " + text + refused, nil
	}
	return fmt.Sprintf("nothing is removed as long as there are resources of users: %s; delete them, or set annotation %s to %q to have them deleted, or take it away to keep CRDs and Namespace",
		text, api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources), nil
}

// definedBy is the resource that a CRD of ours defines; empty when it is gone or not ours.
func (i *Installation) definedBy(ctx context.Context, e *entry) (schema.GroupVersionResource, error) {
	crd, err := i.cluster.dynamic.Resource(e.gvr()).Get(ctx, e.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return schema.GroupVersionResource{}, nil
	}
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("cannot get %s: %w", e.id(), err)
	}
	if crd.GetLabels()[api.ComponentLabel] != string(i.owner.Component) {
		return schema.GroupVersionResource{}, nil
	}
	gvr := schema.GroupVersionResource{}
	gvr.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	gvr.Resource, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if stored, _ := version["storage"].(bool); stored { // no conversion is needed to list it
			gvr.Version, _ = version["name"].(string)
		}
	}
	return gvr, nil
}

// userResources counts the objects of a resource that are not ours, and deletes them if that is asked for. refused tells of
// the first that the cluster refuses to delete.
func (i *Installation) userResources(ctx context.Context, gvr schema.GroupVersionResource, remove bool) (n int64, refused string, err error) {
	list, err := i.cluster.metadata.Resource(gvr).List(ctx, metav1.ListOptions{LabelSelector: "!" + api.ComponentLabel})
	if apierrors.IsNotFound(err) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("cannot list %s: %w", gvr.GroupResource(), err)
	}
	for _, o := range list.Items {
		if !remove || o.DeletionTimestamp != nil {
			continue
		}
		err := i.cluster.metadata.Resource(gvr).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
		switch {
		case err == nil, apierrors.IsNotFound(err):
		case unusable(err):
			return 0, "", fmt.Errorf("cannot delete %s \"%s/%s\": %w", gvr.GroupResource(), o.Namespace, o.Name, err)
		default:
			refused = cmp.Or(refused, fmt.Sprintf("; the deletion of %s %s/%s was refused: %v", gvr.GroupResource(), o.Namespace, o.Name, err))
		}
	}
	return int64(len(list.Items)), refused, nil
}
