// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// requestMapper maps a changed object to the resources that depend on the object.
type requestMapper struct {
	component api.Component
	// configs are the resources, with target.Indexers. addOns are the ManagedClusterAddOns, with addon-framework's index; nil for
	// a LocalHub.
	configs, addOns cache.Indexer
	// definitions are the ClusterManagementAddOns; nil for a LocalHub.
	definitions addonlisters.ClusterManagementAddOnLister
}

func newRequestMapper(c hub.Configuration) *requestMapper {
	return &requestMapper{component: c.Component, configs: c.Configs.Informer().GetIndexer()}
}

// requestsForConfig returns the resource itself and the resources that wait for the same cluster.
func (m *requestMapper) requestsForConfig(ctx context.Context, o client.Object) []reconcile.Request {
	out := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	if config, ok := o.(*unstructured.Unstructured); ok {
		if ref, ok := target.ReferenceOf(config); ok {
			out = append(out, m.requestsForClusterName(ctx, ref.Name)...)
		}
	}
	return out
}

// requestsForAddOn returns the resources that refer to the cluster of an add-on, and the resource that configures the add-on.
func (m *requestMapper) requestsForAddOn(ctx context.Context, o client.Object) []reconcile.Request {
	addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn)
	if !ok || addOn.Name != m.component.AddOnName() {
		return nil
	}
	out := append(m.requestsForClusterName(ctx, addOn.Namespace), m.requestsForUnassigned(addOn)...)
	for _, find := range []func(*addonv1beta1.ManagedClusterAddOn) (types.NamespacedName, bool){revision.ConfigOf, target.ConfiguredBy} {
		if name, ok := find(addOn); ok {
			out = append(out, reconcile.Request{NamespacedName: name})
		}
	}
	return out
}

// requestsForUnassigned returns the resources of the ClusterManagementAddOn, whose counts have an add-on that waits for its first
// configuration.
func (m *requestMapper) requestsForUnassigned(addOn *addonv1beta1.ManagedClusterAddOn) []reconcile.Request {
	if _, assigned := revision.ConfigOf(addOn); assigned || m.definitions == nil {
		return nil
	}
	definition, err := m.definitions.Get(addOn.Name)
	if err != nil {
		return nil // an event of the ClusterManagementAddOn requests all resources
	}
	var out []reconcile.Request
	for _, name := range revision.ConfigsOfDefinition(definition) {
		out = append(out, reconcile.Request{NamespacedName: name})
	}
	return out
}

// requestsForDeployment returns the resources of the add-ons that use an AddOnDeploymentConfig.
func (m *requestMapper) requestsForDeployment(ctx context.Context, o client.Object) []reconcile.Request {
	addOns, err := m.addOns.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s",
		utils.AddOnDeploymentConfigGVR.Group, utils.AddOnDeploymentConfigGVR.Resource, client.ObjectKeyFromObject(o)))
	out := requestsForConfigs(ctx, nil, err)
	for _, o := range addOns {
		if addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok {
			out = append(out, m.requestsForAddOn(ctx, addOn)...)
		}
	}
	return out
}

// requestsForDefinition returns all resources for the component's ClusterManagementAddOn.
func (m *requestMapper) requestsForDefinition(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetName() != m.component.AddOnName() {
		return nil
	}
	return m.requestsForAll(ctx, o)
}

// requestsForWork returns the resources that refer to the cluster of a work with the label.
func (m *requestMapper) requestsForWork(label string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		if o.GetLabels()[label] != m.component.AddOnName() {
			return nil
		}
		return m.requestsForClusterName(ctx, o.GetNamespace())
	}
}

// requestsForFoundation returns the resources that refer to the cluster of a foundation or gate, and the resource that configures the
// add-on of the cluster: the resource counts the versions that foundations record, and the clusters with an open gate.
func (m *requestMapper) requestsForFoundation(ctx context.Context, o client.Object) []reconcile.Request {
	out := m.requestsForWork(api.FoundationLabel)(ctx, o)
	if name := o.GetName(); name != manifestwork.FoundationName(m.component) && name != manifestwork.GateName(m.component) {
		return out
	}
	found, exists, err := m.addOns.GetByKey(o.GetNamespace() + "/" + m.component.AddOnName())
	if addOn, ok := found.(*addonv1beta1.ManagedClusterAddOn); err == nil && exists && ok {
		if name, ok := revision.ConfigOf(addOn); ok {
			out = append(out, reconcile.Request{NamespacedName: name})
		}
	}
	return out
}

// requestsForCluster returns the resources that refer to a ManagedCluster or ClusterProfile.
func (m *requestMapper) requestsForCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return m.requestsForClusterName(ctx, o.GetName())
}

func (m *requestMapper) requestsForClusterName(ctx context.Context, name string) []reconcile.Request {
	configs, err := target.ReferringToName(m.configs, name)
	return requestsForConfigs(ctx, configs, err)
}

// requestsForBinding returns the resources that refer to a ClusterProfile in the namespace of a ManagedClusterSetBinding.
func (m *requestMapper) requestsForBinding(ctx context.Context, o client.Object) []reconcile.Request {
	configs, err := target.ReferringToNamespace(m.configs, o.GetNamespace())
	return requestsForConfigs(ctx, configs, err)
}

// requestsForRevision returns the resource of a ControllerRevision.
func (m *requestMapper) requestsForRevision(_ context.Context, o client.Object) []reconcile.Request {
	rev, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil
	}
	component, name, ok := revision.ResourceOf(rev)
	if !ok || component != m.component {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

func (m *requestMapper) requestsForAll(context.Context, client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, o := range m.configs.List() {
		if object, err := apimeta.Accessor(o); err == nil {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}})
		}
	}
	return out
}

func requestsForConfigs(ctx context.Context, configs []*unstructured.Unstructured, err error) []reconcile.Request {
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the resources that depend on a changed object")
	}
	var out []reconcile.Request
	for _, config := range configs {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(config)})
	}
	return out
}
