// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

const (
	// listTimeout bounds the requests for all pages of one list of the hub.
	listTimeout = 30 * time.Second
	// pageSize is the number of objects that one request for a list returns.
	pageSize = 500
)

// Hub is the hub, with the credentials of the user.
type Hub struct {
	// Name names the hub in messages, such as `the hub (https://hub.example.com)`.
	Name string
	// Dynamic reads and writes whole objects, and Metadata reads the metadata of ManifestWorks and clusters alone.
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
}

// Connect creates the clients of the hub, and sends no request.
func Connect(config *rest.Config) (*Hub, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	out := &Hub{Name: fmt.Sprintf("the hub (%s)", config.Host)}
	var errs [2]error
	out.Dynamic, errs[0] = dynamic.NewForConfig(config)
	out.Metadata, errs[1] = metadata.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("cannot create clients for %s: %w", out.Name, err)
	}
	return out, nil
}

// Query selects the objects that a list reads.
type Query struct {
	// Namespace restricts the lists; empty means all namespaces.
	Namespace  string
	Components []api.Component
	// InstalledOnly leaves out the KnativeFleets and AddOnDeploymentConfigs, which tell pending changes alone, and whose lists need permissions of
	// their own.
	InstalledOnly bool
}

// source is one list of the hub.
type source struct {
	resource  schema.GroupVersionResource
	namespace string
	options   metav1.ListOptions
	// component is the component of the objects; empty for objects of all components.
	component api.Component
	// metadataOnly is true when the metadata of the objects suffices.
	metadataOnly bool
	// isOptional is true when the list adds a column alone.
	isOptional bool
}

// describe names the list for messages.
func (s *source) describe() string {
	out := s.resource.GroupResource().String()
	if s.namespace != "" {
		out += fmt.Sprintf(" in namespace %q", s.namespace)
	}
	return out
}

func (q *Query) sources() []source {
	var out []source
	addOns := schema.GroupVersion(addonv1beta1.GroupVersion).WithResource("managedclusteraddons")
	for _, component := range q.Components {
		out = append(out, source{resource: component.Resource(), namespace: q.Namespace, component: component})
		out = append(out, source{
			resource: addOns, namespace: q.Namespace, component: component,
			options: metav1.ListOptions{FieldSelector: "metadata.name=" + component.AddOnName()},
		})
	}
	if !q.InstalledOnly {
		out = append(out, source{resource: fleetv1alpha1.Resource(), namespace: q.Namespace, isOptional: true})
	}
	if !q.InstalledOnly && q.Namespace == "" { // the AddOnDeploymentConfigs of an add-on are in the namespaces of administrators
		out = append(out, source{resource: revision.DeploymentConfig{}.Resource(), isOptional: true})
	}
	// The list of payloads has the gates too, so that a watch shows the changes of both in their order.
	selectors := []string{
		api.FoundationLabel + ",!" + addonv1beta1.AddonLabelKey,
		fmt.Sprintf("%s in (%s,%s)", addonv1beta1.AddonLabelKey, api.Serving.AddOnName(), api.Eventing.AddOnName()),
	}
	for _, selector := range selectors {
		out = append(out, source{
			resource: schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks"), namespace: q.Namespace,
			options: metav1.ListOptions{LabelSelector: selector}, isOptional: true, metadataOnly: true,
		})
	}
	return out
}

// ListError is the error of one list.
type ListError struct {
	Resource string
	// IsOptional is true when the result lacks a column alone.
	IsOptional bool
	cause      error
}

func (e *ListError) Error() string { return e.cause.Error() }

func (e *ListError) Unwrap() error { return e.cause }

// List returns the objects of the hub that describe installations. The errors are those of lists that failed; the objects lack
// their result.
func (h *Hub) List(ctx context.Context, q Query) (Objects, []*ListError) {
	out, failed, _ := h.list(ctx, q)
	return out, failed
}

// list returns the objects, the errors, and the lists that succeeded.
func (h *Hub) list(ctx context.Context, q Query) (Objects, []*ListError, []source) {
	sources := q.sources()
	type result struct {
		items []runtime.Object
		err   error
	}
	results := make([]chan result, len(sources))
	for n, s := range sources {
		results[n] = make(chan result, 1)
		go func() {
			items, err := h.listSource(ctx, s)
			results[n] <- result{items, err}
		}()
	}
	out := Objects{Resources: map[api.Component][]*unstructured.Unstructured{}}
	var failed []*ListError
	var listed []source
	for n, s := range sources {
		r := <-results[n]
		if s.resource == fleetv1alpha1.Resource() && apierrors.IsNotFound(r.err) {
			continue // a hub need not serve KnativeFleets
		}
		if r.err != nil {
			isRepeated := slices.ContainsFunc(failed, func(e *ListError) bool { return e.IsOptional && e.Resource == s.describe() })
			if !isRepeated {
				failed = append(failed, &ListError{s.describe(), s.isOptional, h.explain("list "+s.describe(), r.err)})
			}
			continue
		}
		listed = append(listed, s)
		for _, o := range r.items {
			out.add(&s, o)
		}
	}
	return out, failed, listed
}

// listSource returns the objects of one list. The hub sends the list in pages.
func (h *Hub) listSource(ctx context.Context, s source) ([]runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if s.metadataOnly {
			return h.Metadata.Resource(s.resource).Namespace(s.namespace).List(ctx, options)
		}
		return h.Dynamic.Resource(s.resource).Namespace(s.namespace).List(ctx, options)
	})
	pages.PageSize = pageSize
	var out []runtime.Object
	err := pages.EachListItem(ctx, s.options, func(o runtime.Object) error {
		out = append(out, o)
		return nil
	})
	return out, err
}

// ListResource returns the objects of a resource, in pages; an empty namespace means all namespaces.
func (h *Hub) ListResource(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]*unstructured.Unstructured, error) {
	s := source{resource: resource, namespace: namespace}
	items, err := h.listSource(ctx, s)
	if err != nil {
		return nil, h.explain("list "+s.describe(), err)
	}
	var out []*unstructured.Unstructured
	for _, o := range items {
		if u, isObject := o.(*unstructured.Unstructured); isObject {
			out = append(out, u)
		}
	}
	return out, nil
}

// GetResource returns one object of a resource; nil when the hub does not have the object.
func (h *Hub) GetResource(ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	out, err := h.Dynamic.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, h.explain(fmt.Sprintf("read %s %q", resource.GroupResource(), name), err)
	}
	return out, nil
}

// add adds an object of a list. An object that is no add-on of Knative, or that cannot be read, is left out.
func (o *Objects) add(s *source, object runtime.Object) {
	switch object := object.(type) {
	case *metav1.PartialObjectMetadata:
		o.Works = append(o.Works, object)
	case *unstructured.Unstructured:
		switch s.resource {
		case fleetv1alpha1.Resource():
			o.Fleets = append(o.Fleets, object)
			return
		case revision.DeploymentConfig{}.Resource():
			o.Deployments = append(o.Deployments, object)
			return
		case s.component.Resource():
			o.Resources[s.component] = append(o.Resources[s.component], object)
			return
		}
		addOn := &addonv1beta1.ManagedClusterAddOn{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, addOn) == nil && addOn.Name == s.component.AddOnName() {
			o.AddOns = append(o.AddOns, addOn)
		}
	}
}

// SelectClusters returns the names of the ManagedClusters, and namespace/name of the ClusterProfiles, that a label selector selects.
func (h *Hub) SelectClusters(ctx context.Context, q Query, selector string) (sets.Set[string], []*ListError) {
	out := sets.New[string]()
	var failed []*ListError
	for _, s := range []source{
		{resource: schema.GroupVersion(clusterv1.GroupVersion).WithResource("managedclusters"), metadataOnly: true},
		{resource: clusterinventoryv1alpha1.GroupVersion.WithResource("clusterprofiles"), namespace: q.Namespace, metadataOnly: true},
	} {
		s.options.LabelSelector = selector
		items, err := h.listSource(ctx, s)
		if apierrors.IsNotFound(err) {
			continue // a hub need not serve ClusterProfiles
		}
		if err != nil {
			failed = append(failed, &ListError{Resource: s.describe(), cause: h.explain("list "+s.describe(), err)})
		}
		for _, o := range items {
			if of, err := apimeta.Accessor(o); err == nil && of.GetNamespace() == "" {
				out.Insert(of.GetName())
			} else if err == nil {
				out.Insert(of.GetNamespace() + "/" + of.GetName())
			}
		}
	}
	return out, failed
}

// explain returns the error of a request with the hub, the action and the next step.
func (h *Hub) explain(action string, err error) error {
	next := "correct the object that the message names, and run the command again"
	switch {
	case apierrors.IsUnauthorized(err):
		next = "the API server does not know the credentials of the kubeconfig: renew the credentials"
	case apierrors.IsForbidden(err):
		next = "ask the hub's administrator for the permission, or name a namespace with --namespace"
	case apierrors.IsNotFound(err):
		next = "check with --kubeconfig and --context that the cluster is a hub with this add-on, and that the object exists"
	case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err):
		next = "try again, and check the API server of the hub if the error stays"
	case IsUnanswered(err):
		next = "check with --kubeconfig and --context that the address is right and reachable from this machine"
	}
	return fmt.Errorf("cannot %s on %s: %w; %s", action, h.Name, err, next)
}

// IsUnanswered reports whether an error means that the hub has not answered.
func IsUnanswered(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}
