// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// checkClusterFree returns an error if the cluster has the component, and no anchor records that the owner installed the
// component.
func (i *Installation) checkClusterFree(ctx context.Context, b *render.Bundle) error {
	a, err := i.store.Find(ctx)
	if err != nil {
		return err
	}
	if a != nil && a.Namespace != b.Namespace {
		return &clustercache.BlockedError{Err: fmt.Errorf(
			"cannot install in namespace %q of the cluster: the installation is in namespace %q, and stays there; set annotation %s back, or recreate the resource",
			b.Namespace, a.Namespace, api.InstallNamespaceAnnotation)}
	}
	var found []unmanagedWorkload
	for _, resource := range []string{"deployments", "statefulsets"} {
		workloads, err := i.listUnmanagedWorkloads(ctx, b, appsResource(resource))
		if err != nil {
			return err
		}
		found = append(found, workloads...)
	}
	return newWorkloadsError(found, b.Namespace)
}

// newWorkloadsError returns the error for workloads of the component that this add-on does not manage; nil without workloads.
func newWorkloadsError(found []unmanagedWorkload, installNamespace string) error {
	var unmanaged, applied, by, others []string
	for _, w := range found {
		unmanaged = append(unmanaged, w.text)
		if w.appliedBy != "" {
			applied, by = append(applied, w.text), append(by, w.appliedBy)
		}
		if w.namespace != installNamespace {
			others = append(others, w.namespace)
		}
	}
	slices.Sort(unmanaged)
	slices.Sort(applied)
	slices.Sort(others)
	others = slices.Compact(others)
	switch {
	case len(applied) > 0:
		return &inventory.OwnershipError{Owner: "AppliedManifestWork " + slices.Min(by), WorkAgent: true, Objects: applied, OtherNamespaces: others}
	case len(unmanaged) > 0:
		return &inventory.UnmanagedError{Objects: unmanaged, OtherNamespaces: others}
	}
	return nil
}

const (
	// maxUnmanagedWorkloads bounds the unmanaged workloads that an error names.
	maxUnmanagedWorkloads = 100
	// maxUserObjects bounds the resources of users that a pass counts or deletes.
	maxUserObjects = 50_000
)

// unmanagedWorkload is a workload of the component that this add-on does not manage.
type unmanagedWorkload struct {
	text, namespace string
	// appliedBy is the AppliedManifestWork that owns the workload; empty unless a work agent applied the workload.
	appliedBy string
}

// listUnmanagedWorkloads lists workloads without our label: workloads with a name and namespace of the bundle, and Knative
// workloads with a name of the bundle in any other namespace.
func (i *Installation) listUnmanagedWorkloads(ctx context.Context, b *render.Bundle, gvr schema.GroupVersionResource) ([]unmanagedWorkload, error) {
	const notOurs = "!" + api.ComponentLabel
	var out []unmanagedWorkload
	for namespace, selector := range map[string]string{
		b.Namespace:         notOurs,
		metav1.NamespaceAll: notOurs + ",app.kubernetes.io/name=" + string(b.Component), // on every workload of Knative
	} {
		_, err := clustercache.ListPages(ctx, metav1.ListOptions{LabelSelector: selector}, maxUserObjects, func(ctx context.Context, options metav1.ListOptions) (*metav1.ListMeta, error) {
			list, err := i.cluster.Metadata.Resource(gvr).Namespace(namespace).List(ctx, options)
			if err != nil {
				return nil, err
			}
			for _, o := range list.Items {
				w := slices.IndexFunc(b.Workloads, func(w workload.Expected) bool { return gvr == workloadResource(w) && w.Name == o.Name })
				if w < 0 || namespace == metav1.NamespaceAll && o.Namespace == b.Namespace || len(out) >= maxUnmanagedWorkloads {
					continue
				}
				out = append(out, unmanagedWorkload{
					namespace: message.Shorten(o.Namespace, message.MaxName),
					text:      fmt.Sprintf("%s %s/%s", b.Workloads[w].Kind, message.Shorten(o.Namespace, message.MaxName), o.Name),
					appliedBy: message.Shorten(appliedManifestWorkOf(o.OwnerReferences), message.MaxName),
				})
			}
			return &list.ListMeta, nil
		})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s of namespace %q: %w", gvr.Resource, namespace, err)
		}
	}
	return out, nil
}

// appliedManifestWorkOf returns the AppliedManifestWork among the owners of an object, or an empty text.
func appliedManifestWorkOf(owners []metav1.OwnerReference) string {
	i := slices.IndexFunc(owners, func(r metav1.OwnerReference) bool { return r.Kind == "AppliedManifestWork" })
	if i < 0 {
		return ""
	}
	return owners[i].Name
}
