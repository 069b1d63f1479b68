// Copyright Contributors to the Open Cluster Management project

package register

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// listedContent is the number of objects that the description of a Namespace with content names.
const listedContent = 5

// Removal is a registration to delete.
type Removal struct {
	hub, cluster *Cluster
	id           identity
	onHub        []*unstructured.Unstructured
	onCluster    []*unstructured.Unstructured
	// namespaces are the Namespaces that the registration has created.
	namespaces []*unstructured.Unstructured
}

// CheckRemoval reads the objects of the registration as a ClusterProfile. cluster is nil when the objects on the cluster are to stay.
// The error names a resource that refers to the ClusterProfile, a ClusterProfile that another client has created, or the cluster
// without objects of the registration, with the next step. Nothing is written.
func CheckRemoval(ctx context.Context, hub, cluster *Cluster, profile types.NamespacedName) (*Removal, error) {
	uid, err := hub.UID(ctx)
	if err != nil {
		return nil, err
	}
	referring, err := ListReferring(ctx, hub, profile)
	if err != nil {
		return nil, err
	}
	if len(referring) > 0 {
		var names []string
		for _, o := range referring {
			names = append(names, describe(o))
		}
		return nil, fmt.Errorf("cannot unregister ClusterProfile %q, to which resources refer:\n  %s\nDelete the resources first: the manager removes Knative with the credential",
			profile, strings.Join(names, "\n  "))
	}
	r := &Removal{hub: hub, cluster: cluster, id: identity{uid, profile}}
	if err := r.readHub(ctx); err != nil {
		return nil, err
	}
	if cluster != nil {
		if err := r.readCluster(ctx); err != nil {
			return nil, err
		}
	}
	if len(r.onHub)+len(r.onCluster)+len(r.namespaces) == 0 {
		return nil, fmt.Errorf("%s has no registration as ClusterProfile %q: correct NAME and --namespace", hub.Name, profile)
	}
	return r, nil
}

// readHub finds the Secret and the ClusterProfile. The Secret is deleted first: only the ClusterProfile names the namespace of the Secret.
func (r *Removal) readHub(ctx context.Context) error {
	secret := r.id.profile
	var onHub []*unstructured.Unstructured
	profile, err := r.hub.Dynamic.Resource(profileResource()).Namespace(r.id.profile.Namespace).Get(ctx, r.id.profile.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		if err := r.id.refuse(r.hub, profile, "delete the ClusterProfile where it was created"); err != nil {
			return err
		}
		onHub = append(onHub, profile)
		secret = recordedSecret(profile)
	case !apierrors.IsNotFound(err):
		return r.hub.explain(fmt.Sprintf("read ClusterProfile %s", r.id.profile), err)
	}
	found, err := r.hub.findOwnedSecret(ctx, r.id, secret)
	if found != nil {
		onHub = slices.Insert(onHub, 0, found)
	}
	r.onHub = onHub
	return err
}

// readCluster finds the objects of the registration on the cluster.
func (r *Removal) readCluster(ctx context.Context) error {
	var err error
	if r.onCluster, err = r.cluster.listOwned(ctx, r.id); err != nil {
		return err
	}
	list, err := r.cluster.Dynamic.Resource(namespaceResource()).List(ctx, metav1.ListOptions{LabelSelector: api.RegisteredLabel + "=true"})
	if err != nil {
		return r.cluster.explain("list namespaces", err)
	}
	for i := range list.Items {
		if r.id.owns(&list.Items[i]) {
			r.namespaces = append(r.namespaces, &list.Items[i])
		}
	}
	if len(r.onCluster)+len(r.namespaces) == 0 {
		return fmt.Errorf("%s has no object of the registration as ClusterProfile %q: correct --kubeconfig and --context, or omit --kubeconfig to unregister on the hub only",
			r.cluster.Name, r.id.profile)
	}
	return nil
}

// Run deletes the Secret and the ClusterProfile of the hub first, then the ServiceAccount and its permissions, and the Namespaces
// of the registration without content. removed and kept describe the objects; kept names the content of each Namespace.
func (r *Removal) Run(ctx context.Context) (removed, kept []string, err error) {
	if removed, err = r.hub.removeAll(ctx, r.onHub); err != nil || r.cluster == nil {
		return removed, nil, err
	}
	more, err := r.cluster.removeAll(ctx, r.onCluster)
	removed = append(removed, more...)
	if err != nil {
		return removed, nil, err
	}
	for _, namespace := range r.namespaces {
		content, err := r.cluster.listContent(ctx, namespace.GetName())
		if err != nil {
			return removed, kept, err
		}
		if len(content) > 0 {
			kept = append(kept, fmt.Sprintf("%s with %s", describe(namespace), message.List(content, listedContent)))
			continue
		}
		if err := r.cluster.remove(ctx, namespace); err != nil {
			return removed, kept, err
		}
		removed = append(removed, describe(namespace))
	}
	return removed, kept, nil
}

// recordResources are the resources that no user creates: Events, Leases of controllers, and the endpoints of Services.
func recordResources() []string { return []string{"events", "leases", "endpoints", "endpointslices"} }

// listContent returns descriptions of the objects in a namespace, except objects that Kubernetes creates in every namespace, and
// objects that end without a request.
func (c *Cluster) listContent(ctx context.Context, namespace string) ([]string, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.Kube.Discovery())
	if err != nil {
		return nil, c.explain("discover the resources", err)
	}
	var out []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("cannot read the resources of %s: %w", c.Name, err)
		}
		for i := range list.APIResources {
			names, err := c.listLasting(ctx, namespace, gv, &list.APIResources[i])
			if err != nil {
				return nil, err
			}
			out = append(out, names...)
		}
	}
	return out, nil
}

// listLasting returns descriptions of the objects of a resource that are not transient.
func (c *Cluster) listLasting(ctx context.Context, namespace string, gv schema.GroupVersion, resource *metav1.APIResource) ([]string, error) {
	if !slices.Contains(resource.Verbs, "list") || slices.Contains(recordResources(), resource.Name) {
		return nil, nil
	}
	objects, err := c.Dynamic.Resource(gv.WithResource(resource.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		return nil, nil
	case err != nil:
		return nil, c.explain(fmt.Sprintf("list %s in namespace %s", resource.Name, namespace), err)
	}
	var out []string
	for i := range objects.Items {
		o := &objects.Items[i]
		if o.SetKind(resource.Kind); !isTransient(o) {
			out = append(out, fmt.Sprintf("%s %s", resource.Kind, o.GetName()))
		}
	}
	return out, nil
}

// isTransient reports whether Kubernetes creates the object in every namespace, or deletes the object with the owner of the object.
func isTransient(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ServiceAccount" && o.GetName() == "default" || o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt" ||
		o.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) > 0
}

func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// recordedSecret returns the Secret that a ClusterProfile of a registration names.
func recordedSecret(profile *unstructured.Unstructured) types.NamespacedName {
	namespace, name, ok := strings.Cut(profile.GetAnnotations()[api.RegisteredSecretAnnotation], "/")
	if !ok {
		return types.NamespacedName{Namespace: profile.GetNamespace(), Name: profile.GetName()}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// findOwnedSecret returns the Secret when the registration has created the Secret, and nil otherwise.
func (c *Cluster) findOwnedSecret(ctx context.Context, id identity, name types.NamespacedName) (*unstructured.Unstructured, error) {
	secret := &unstructured.Unstructured{}
	secret.SetAPIVersion("v1")
	secret.SetKind("Secret")
	secret.SetNamespace(name.Namespace)
	secret.SetName(name.Name)
	found, err := c.find(ctx, secret)
	if err != nil || found == nil || !id.owns(found) {
		return nil, err
	}
	return found, nil
}
