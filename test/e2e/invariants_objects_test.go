// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/test/e2e/harness/invariants"
	"open-cluster-management.io/knative-addon/test/lab"
)

// undelivered are resources that no add-on delivers and of which clusters have many.
var undelivered = []string{"events", "leases", "pods", "replicasets", "endpoints", "endpointslices", "controllerrevisions", "componentstatuses"}

// deliveredObjects reads the objects on a cluster that the add-on has applied, and those that the inventories of the cluster list.
func deliveredObjects(ctx context.Context, c *lab.Cluster) (delivered []invariants.Object, recorded map[invariants.Object]bool, err error) {
	resources, err := listedResources(c)
	if err != nil {
		return nil, nil, err
	}
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, nil, err
	}
	for _, gvr := range resources {
		list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot list %s: %w", gvr.Resource, err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; isDelivered(o) && o.DeletionTimestamp == nil {
				delivered = append(delivered, invariants.Object{Group: gvr.Group, Resource: gvr.Resource, Namespace: o.Namespace, Name: o.Name})
			}
		}
	}
	recorded, err = recordedObjects(ctx, c)
	return delivered, recorded, err
}

func listedResources(c *lab.Cluster) ([]schema.GroupVersionResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("cannot discover the resources: %w", err)
	}
	var out []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for i := range list.APIResources {
			if r := &list.APIResources[i]; slices.Contains(r.Verbs, "list") && !slices.Contains(undelivered, r.Name) {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

var (
	configMapResource   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	appliedWorkResource = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "appliedmanifestworks"}
)

// listAnchors lists the ConfigMaps of a cluster with the inventories of direct delivery.
func listAnchors(ctx context.Context, client dynamic.Interface) ([]unstructured.Unstructured, error) {
	list, err := client.Resource(configMapResource).List(ctx, metav1.ListOptions{LabelSelector: api.ComponentLabel})
	if err != nil {
		return nil, fmt.Errorf("cannot list the anchors: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		_, found, err := unstructured.NestedString(o.Object, "data", "inventory")
		return err != nil || !found || o.GetAnnotations()[api.InstalledForAnnotation] == ""
	}), nil
}

// unrecordedWrites returns the violation of a cluster whose record lacks the writes of direct delivery.
func unrecordedWrites(ctx context.Context, c *lab.Cluster) ([]string, error) {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	anchors, err := listAnchors(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	changes, err := c.Changes()
	return invariants.RecordWrites(c.Name, len(anchors), changes), err
}

// recordedObjects reads the anchors and the AppliedManifestWorks of a cluster.
func recordedObjects(ctx context.Context, c *lab.Cluster) (map[invariants.Object]bool, error) {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	out := map[invariants.Object]bool{}
	anchors, err := listAnchors(ctx, client)
	if err != nil {
		return nil, err
	}
	for i := range anchors {
		a := &anchors[i]
		text, _, _ := unstructured.NestedString(a.Object, "data", "inventory")
		items, err := inventory.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("cannot decode anchor %s/%s: %w", a.GetNamespace(), a.GetName(), err)
		}
		out[invariants.Object{Resource: "configmaps", Namespace: a.GetNamespace(), Name: a.GetName()}] = true
		for _, item := range items {
			out[invariants.Object{Group: item.Group, Resource: item.Resource, Namespace: item.Namespace, Name: item.Name}] = true
		}
	}
	works, err := listAll(ctx, client, appliedWorkResource)
	if err != nil {
		return nil, err
	}
	for i := range works {
		applied, _, _ := unstructured.NestedSlice(works[i].Object, "status", "appliedResources")
		for _, r := range applied {
			entry, _ := r.(map[string]any)
			text := func(key string) string { value, _ := entry[key].(string); return value }
			out[invariants.Object{Group: text("group"), Resource: text("resource"), Namespace: text("namespace"), Name: text("name")}] = true
		}
	}
	return out, nil
}
