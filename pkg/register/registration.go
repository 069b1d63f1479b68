// Copyright Contributors to the Open Cluster Management project

package register

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
)

// Request describes a registration.
type Request struct {
	// Profile is the ClusterProfile.
	Profile types.NamespacedName
	// SecretNamespace is the namespace of the Secret with the token on the hub. The Secret has the name of the ClusterProfile.
	SecretNamespace string
	// Provider is the name of the access provider.
	Provider string
	// Endpoint is the address of the API server, as ReadEndpoint returns.
	Endpoint clientcmdv1.Cluster
	// Account is the ServiceAccount on the cluster.
	Account types.NamespacedName
	// Grant holds the permissions of the ServiceAccount.
	Grant *direct.Grant
	// TokenDuration is the lifetime of the token, which the API server may shorten. Zero requests a token without an end.
	TokenDuration time.Duration
	// Timeout limits each wait of the registration.
	Timeout time.Duration
}

// Registration is a checked Request.
type Registration struct {
	Request
	hub, cluster *Cluster
	id           identity

	// onCluster are the objects to apply on the cluster, without the Namespaces of others.
	onCluster []*unstructured.Unstructured
	// profile is the ClusterProfile of an earlier registration, or nil.
	profile *unstructured.Unstructured
}

// Check reads both clusters and returns the registration, and an error that names the object and the next step for an object that
// another client has created. Nothing is written.
func Check(ctx context.Context, hub, cluster *Cluster, request *Request) (*Registration, error) {
	r := &Registration{Request: *request, hub: hub, cluster: cluster}
	hubUID, err := hub.UID(ctx)
	if err != nil {
		return nil, err
	}
	clusterUID, err := cluster.UID(ctx)
	if err != nil {
		return nil, err
	}
	if hubUID == clusterUID {
		return nil, fmt.Errorf("%s is the hub itself: name the kubeconfig of another cluster; chart value localInstalls installs Knative on the hub", cluster.Name)
	}
	r.id = identity{hubUID, r.Profile}
	if err := r.checkHub(ctx); err != nil {
		return nil, err
	}
	return r, r.checkCluster(ctx)
}

// checkHub reads the objects of the registration on the hub.
func (r *Registration) checkHub(ctx context.Context) error {
	for _, namespace := range slices.Compact([]string{r.Profile.Namespace, r.SecretNamespace}) {
		_, err := r.hub.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%s has no namespace %q: create the namespace, or correct --namespace and --secret-namespace", r.hub.Name, namespace)
		}
		if err != nil {
			return r.hub.explain(fmt.Sprintf("read Namespace %s", namespace), err)
		}
	}
	profiles := r.hub.Dynamic.Resource(profileResource()).Namespace(r.Profile.Namespace)
	if _, err := profiles.List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
		return fmt.Errorf("%s does not serve ClusterProfiles: enable feature gate ClusterProfile of Open Cluster Management, or apply the CRD of cluster-inventory-api", r.hub.Name)
	}
	objects, err := r.hubObjects(PlaceholderToken)
	if err != nil {
		return err
	}
	for _, o := range objects {
		found, err := r.hub.find(ctx, o)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		if err := r.id.refuse(r.hub, found, "register under another name, or delete the object"); err != nil {
			return err
		}
		if found.GetKind() == "ClusterProfile" {
			r.profile = found
		}
	}
	return nil
}

// checkCluster reads the objects of the registration on the cluster.
func (r *Registration) checkCluster(ctx context.Context) error {
	objects, err := r.clusterObjects()
	if err != nil {
		return err
	}
	for _, o := range objects {
		found, err := r.cluster.find(ctx, o)
		if err != nil {
			return err
		}
		if found != nil && found.GetDeletionTimestamp() != nil {
			return fmt.Errorf("%s on %s is being deleted: run the command again when the object is gone", describe(found), r.cluster.Name)
		}
		if found != nil && o.GetKind() == "Namespace" && !r.id.owns(found) {
			continue // A Namespace of the administrator serves as well.
		}
		if found != nil {
			if err := r.id.refuse(r.cluster, found, "choose another --service-account, or delete the object"); err != nil {
				return err
			}
		}
		r.onCluster = append(r.onCluster, o)
	}
	return nil
}

// Objects returns the objects that the registration writes on the cluster and on the hub, with PlaceholderToken for the token.
func (r *Registration) Objects() (cluster, hub []*unstructured.Unstructured, err error) {
	hub, err = r.hubObjects(PlaceholderToken)
	if err != nil {
		return nil, nil, err
	}
	status, err := r.profileWithStatus("", metav1.Time{})
	if err != nil {
		return nil, nil, err
	}
	for _, o := range hub {
		if o.GetKind() == "ClusterProfile" {
			o.Object["status"] = status.Object["status"]
		}
	}
	return r.onCluster, hub, nil
}

// WriteCluster writes the ServiceAccount and its permissions, and returns the number of objects.
func (r *Registration) WriteCluster(ctx context.Context) (int, error) {
	for _, o := range r.onCluster {
		if err := r.cluster.apply(ctx, o); err != nil {
			return 0, err
		}
	}
	return len(r.onCluster), nil
}

// WriteHub writes the Secret with the token and the ClusterProfile with its status. version is the Kubernetes version of the cluster.
func (r *Registration) WriteHub(ctx context.Context, token, version string, now time.Time) error {
	objects, err := r.hubObjects(token)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := r.hub.apply(ctx, o); err != nil {
			return err
		}
	}
	status, err := r.profileWithStatus(version, r.healthySince(now))
	if err != nil {
		return err
	}
	return r.hub.apply(ctx, status, "status")
}

// healthySince returns the time since which the ClusterProfile is healthy, or now.
func (r *Registration) healthySince(now time.Time) metav1.Time {
	if r.profile != nil {
		c := findCondition(r.profile, clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy)
		if c != nil && c.Status == metav1.ConditionTrue {
			return c.LastTransitionTime
		}
	}
	return metav1.NewTime(now.Truncate(time.Second))
}

// RemoveObsolete deletes the objects of earlier registrations of the same ClusterProfile that the registration does not need any
// more, and returns their descriptions. Namespaces stay.
func (r *Registration) RemoveObsolete(ctx context.Context) ([]string, error) {
	removed, err := r.removeFormerSecret(ctx) // first: the ClusterProfile does not name the Secret any more
	if err != nil {
		return removed, err
	}
	needed := map[string]bool{}
	for _, o := range r.onCluster {
		needed[describe(o)] = true
	}
	var obsolete []*unstructured.Unstructured
	owned, err := r.cluster.listOwned(ctx, r.id)
	if err != nil {
		return removed, err
	}
	for _, o := range owned {
		if !needed[describe(o)] {
			obsolete = append(obsolete, o)
		}
	}
	more, err := r.cluster.removeAll(ctx, obsolete)
	return append(removed, more...), err
}

// removeFormerSecret deletes the Secret of the hub that the ClusterProfile named before, when the registration has a Secret in another
// namespace now.
func (r *Registration) removeFormerSecret(ctx context.Context) ([]string, error) {
	if r.profile == nil {
		return nil, nil
	}
	secret := recordedSecret(r.profile)
	if secret == (types.NamespacedName{Namespace: r.SecretNamespace, Name: r.Profile.Name}) {
		return nil, nil
	}
	found, err := r.hub.findOwnedSecret(ctx, r.id, secret)
	if err != nil || found == nil {
		return nil, err
	}
	return r.hub.removeAll(ctx, []*unstructured.Unstructured{found})
}

// listOwned returns the objects of the registration except Namespaces, in the order of their deletion.
func (c *Cluster) listOwned(ctx context.Context, id identity) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, resource := range resources() {
		list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: api.RegisteredLabel + "=true"})
		if err != nil {
			return nil, c.explain("list "+resource.Resource, err)
		}
		for i := range list.Items {
			if id.owns(&list.Items[i]) {
				out = append(out, &list.Items[i])
			}
		}
	}
	return out, nil
}

// removeAll deletes objects and returns the descriptions of the deleted objects.
func (c *Cluster) removeAll(ctx context.Context, objects []*unstructured.Unstructured) ([]string, error) {
	var out []string
	for _, o := range objects {
		if err := c.remove(ctx, o); err != nil {
			return out, err
		}
		out = append(out, describe(o))
	}
	return out, nil
}
