// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// uninstalledKinds are the kinds of Kubernetes whose objects the garbage collector does not delete with the anchor, or whose deletion the removal
// has to await, by resource. Namespaces are not included: without the anchor no record names the creator of a namespace.
func uninstalledKinds() map[schema.GroupVersionResource]string {
	return map[schema.GroupVersionResource]string{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}:                 "CustomResourceDefinition",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}:                         "ClusterRole",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}:                  "ClusterRoleBinding",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}:                                "Role",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}:                         "RoleBinding",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}:     "MutatingWebhookConfiguration",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}:   "ValidatingWebhookConfiguration",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}:       "ValidatingAdmissionPolicy",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}: "ValidatingAdmissionPolicyBinding",
		{Group: "apps", Version: "v1", Resource: "deployments"}:                                               "Deployment",
		{Group: "apps", Version: "v1", Resource: "statefulsets"}:                                              "StatefulSet",
		{Version: "v1", Resource: "services"}:                                                                 "Service",
	}
}

// listInstalledItems returns the items to remove: those of the anchor or, after a deletion of the anchor, the objects with our
// label.
func (i *Installation) listInstalledItems(ctx context.Context, a *inventory.Anchor) (inventory.Items, error) {
	if a != nil && len(a.Items) > 0 {
		return a.Items, nil
	}
	inv := inventory.Items{}
	for gvr, kind := range uninstalledKinds() {
		options := metav1.ListOptions{LabelSelector: api.ComponentLabel + "=" + string(i.owner.Component)}
		complete, err := clustercache.ListPages(ctx, options, clustercache.MaxObjects, func(ctx context.Context, options metav1.ListOptions) (*metav1.ListMeta, error) {
			list, err := i.cluster.Metadata.Resource(gvr).List(ctx, options)
			if err != nil {
				return nil, err
			}
			return &list.ListMeta, addOwnedItems(inv, list.Items, inventory.Item{Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: kind})
		})
		if apierrors.IsNotFound(err) {
			if err = i.confirmGone(ctx, gvr, "", err); err == nil {
				continue // the cluster does not serve the kind
			}
		}
		if err == nil && (!complete || len(inv) > clustercache.MaxObjects) {
			err = clustercache.NewTooManyObjectsError(gvr.GroupResource())
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", gvr.GroupResource(), err)
		}
	}
	return inv, nil
}

// addOwnedItems adds objects that this add-on applied, and no copies of these objects. kind is the item of each object without
// name and UID.
func addOwnedItems(inv inventory.Items, objects []metav1.PartialObjectMetadata, kind inventory.Item) error {
	for _, o := range objects {
		if clustercache.DigestOwnedFields(o.ManagedFields) == "" {
			continue
		}
		if err := clustercache.CheckMetadata(&o.ObjectMeta); err != nil {
			return err
		}
		e := kind
		e.Namespace, e.Name, e.UID = o.Namespace, o.Name, o.UID
		inv[e.ID()] = e
	}
	return nil
}

// clearUserResources counts the resources of users of the kinds that the removal deletes. With UserResources it deletes the
// resources while the controllers that handle their finalizers still run.
func (i *Installation) clearUserResources(ctx context.Context, inv inventory.Items, options RemoveOptions) (waiting string, err error) {
	found, refused := map[string]string{}, ""
	for _, e := range inv.Sorted() {
		if e.Kind != "CustomResourceDefinition" {
			continue
		}
		gvr, err := i.definedResource(ctx, &e)
		if err != nil {
			return "", err
		}
		if gvr.Empty() {
			continue
		}
		users, why, err := i.countUserResources(ctx, gvr, options.UserResources)
		if err != nil {
			return "", err
		}
		refused = cmp.Or(refused, why)
		if users.count > 0 {
			resource := gvr.GroupResource().String()
			found[resource] = fmt.Sprintf("%d %s (%s)", users.count, resource, users.description)
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	var names []string
	for _, resource := range slices.Sorted(maps.Keys(found)) {
		names = append(names, found[resource])
	}
	text := delivery.Listed(names)
	if options.UserResources {
		return "waiting for resources of users to be gone: " + text + refused, nil
	}
	return fmt.Sprintf("nothing is removed as long as the cluster has resources of users: %s; delete the resources, or set annotation %s to %q to delete the resources too, or remove the annotation to keep CRDs and Namespace",
		text, api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources), nil
}

// definedResource returns the resource that a CRD defines; empty when the CRD is gone, is not ours, or existed before, and when the cluster has
// never served the resource, so that no object exists. Any user of the cluster may edit the item of the CRD.
func (i *Installation) definedResource(ctx context.Context, e *inventory.Item) (schema.GroupVersionResource, error) {
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	crd, err := i.cluster.Dynamic.Resource(e.GVR()).Get(ctx, e.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return schema.GroupVersionResource{}, i.confirmGone(ctx, e.GVR(), e.Name, err)
	}
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("cannot get %s: %w", e.ID(), err)
	}
	if crd.GetKind() != e.Kind {
		return schema.GroupVersionResource{}, fmt.Errorf("cannot get %s: the cluster answers with an object of kind %s", e.ID(), message.Quote(crd.GetKind()))
	}
	if !i.mayRemove(crd, e) || isNeverServed(crd) {
		return schema.GroupVersionResource{}, nil
	}
	gvr := schema.GroupVersionResource{}
	gvr.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	gvr.Resource, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if stored, _ := version["storage"].(bool); stored { // the stored version needs no conversion
			gvr.Version, _ = version["name"].(string)
		}
	}
	return gvr, nil
}

// isNeverServed reports whether the API server has not served the resource of a CRD yet, such as of a CRD whose names another CRD has: condition
// Established does not return to False.
func isNeverServed(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(entry any) bool {
		c, _ := entry.(map[string]any)
		return c["type"] == "Established" && c["status"] == string(metav1.ConditionFalse)
	})
}

// userResources are the objects of users of one resource.
type userResources struct {
	count int64
	// first is the name of the first object in the order of names, as namespace/name, and description has its finalizers too if the
	// object waits for them.
	first, description string
}

func (u *userResources) add(o *metav1.ObjectMeta) {
	u.count++
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	if u.first != "" && u.first <= name {
		return
	}
	u.first, u.description = name, name
	if o.DeletionTimestamp != nil && len(o.Finalizers) > 0 {
		u.description += " with finalizer " + delivery.Listed(o.Finalizers)
	}
}

// countUserResources counts the objects of the resource of a CRD without our label, and deletes the objects if remove is set. refused
// describes the first refused deletion. The next pass handles objects beyond maxUserObjects.
func (i *Installation) countUserResources(ctx context.Context, gvr schema.GroupVersionResource, remove bool) (users userResources, refused string, err error) {
	var left []types.NamespacedName
	options := metav1.ListOptions{LabelSelector: "!" + api.ComponentLabel}
	_, err = clustercache.ListPages(ctx, options, maxUserObjects, func(ctx context.Context, options metav1.ListOptions) (*metav1.ListMeta, error) {
		list, err := i.cluster.Metadata.Resource(gvr).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if err := clustercache.CheckMetadata(&o.ObjectMeta); err != nil {
				return nil, err
			}
			users.add(&o.ObjectMeta)
			if remove && o.DeletionTimestamp == nil && len(left) < maxUserObjects {
				left = append(left, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
			}
		}
		return &list.ListMeta, nil
	})
	if apierrors.IsNotFound(err) { // the caller has just read the CRD
		err = errors.New("the server answers 404, although a CustomResourceDefinition defines the resource; check the proxy, or the ingress, before the API server")
	}
	if err != nil {
		return userResources{}, "", fmt.Errorf("cannot list %s: %w", gvr.GroupResource(), err)
	}
	for _, name := range left {
		err := i.cluster.Metadata.Resource(gvr).Namespace(name.Namespace).Delete(ctx, name.Name, metav1.DeleteOptions{})
		switch {
		case err == nil, apierrors.IsNotFound(err):
		case clustercache.IsUnavailable(err):
			return userResources{}, "", fmt.Errorf("cannot delete %s %q: %w", gvr.GroupResource(), name, err)
		default:
			refused = cmp.Or(refused, fmt.Sprintf("; the deletion of %s %s was refused: %v", gvr.GroupResource(), name, err))
		}
	}
	return users, refused, nil
}
