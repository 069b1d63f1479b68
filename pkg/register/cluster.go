// Copyright Contributors to the Open Cluster Management project

package register

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// fieldManager is the field manager of every write of a registration.
const fieldManager = "knative-addon-register"

// Cluster is the hub or the registered cluster, with the credentials of an administrator.
type Cluster struct {
	// Name names the cluster in messages, such as `the hub (https://hub.example.com)`.
	Name    string
	Config  *rest.Config
	Dynamic dynamic.Interface
	Kube    kubernetes.Interface
}

// Connect creates the clients of a cluster, and sends no request.
func Connect(name string, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS, config.WarningHandler = requestTimeout, -1, rest.NoWarnings{}
	out := &Cluster{Name: fmt.Sprintf("%s (%s)", name, config.Host), Config: config}
	var errs [2]error
	out.Dynamic, errs[0] = dynamic.NewForConfig(config)
	out.Kube, errs[1] = kubernetes.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("cannot create clients for %s: %w", out.Name, err)
	}
	return out, nil
}

// UID returns the UID of namespace kube-system, which identifies the cluster.
func (c *Cluster) UID(ctx context.Context) (types.UID, error) {
	namespace, err := c.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", c.explain("read Namespace kube-system", err)
	}
	return namespace.UID, nil
}

// explain returns the error of a request with the cluster, the action and the next step.
func (c *Cluster) explain(action string, err error) error {
	next := "check that the address is right and reachable from this machine"
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		next = "the API server does not know the credentials of the kubeconfig: renew the credentials"
	case apierrors.IsForbidden(err):
		next = "use the credentials of an administrator of the cluster"
	case errors.As(err, &status):
		next = "correct the object that the message names, and run the command again"
	}
	return fmt.Errorf("cannot %s on %s: %w; %s", action, c.Name, err, next)
}

// resources are the resources of a registration, in the order in which their objects are deleted: permissions end first.
func resources() []schema.GroupVersionResource {
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	core := schema.GroupVersion{Version: "v1"}
	return []schema.GroupVersionResource{
		rbac.WithResource("clusterrolebindings"), rbac.WithResource("rolebindings"), rbac.WithResource("clusterroles"), rbac.WithResource("roles"),
		core.WithResource("secrets"), core.WithResource("serviceaccounts"),
	}
}

// resourceOf returns the resource of an object of a registration.
func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	plural := map[string]string{
		"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "Secret": "secrets", "ClusterProfile": "clusterprofiles",
		"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
	}
	return o.GroupVersionKind().GroupVersion().WithResource(plural[o.GetKind()])
}

// describe returns the kind and the name of an object.
func describe(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

func (c *Cluster) interfaceFor(o *unstructured.Unstructured) dynamic.ResourceInterface {
	if o.GetNamespace() == "" {
		return c.Dynamic.Resource(resourceOf(o))
	}
	return c.Dynamic.Resource(resourceOf(o)).Namespace(o.GetNamespace())
}

// find returns the object of the cluster with the kind and name of o, or nil when the cluster has no such object.
func (c *Cluster) find(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found, err := c.interfaceFor(o).Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain("read "+describe(o), err)
	}
	return found, nil
}

// apply writes an object by server-side apply.
func (c *Cluster) apply(ctx context.Context, o *unstructured.Unstructured, subresources ...string) error {
	_, err := c.interfaceFor(o).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}, subresources...)
	if err != nil {
		return c.explain("write "+describe(o), err)
	}
	return nil
}

// remove deletes an object unless another object of the same name has replaced the object.
func (c *Cluster) remove(ctx context.Context, o *unstructured.Unstructured) error {
	uid := o.GetUID()
	err := c.interfaceFor(o).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return c.explain("delete "+describe(o), err)
	}
	return nil
}
