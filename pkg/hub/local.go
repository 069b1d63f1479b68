// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"

	"k8s.io/client-go/dynamic/dynamicinformer"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/index"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// LocalHub holds the clients and the caches of a hub on which Knative itself is installed. The caches hold KnativeServings and
// KnativeEventings of the usual namespace of the component only: no other resource can reach a manager that may write nearly
// every object of the hub.
type LocalHub struct {
	Clients Clients

	configs   map[api.Component]dynamicinformer.DynamicSharedInformerFactory
	revisions map[api.Component]kubeinformers.SharedInformerFactory
	addOns    addoninformers.SharedInformerFactory
	operator  *KnativeOperator
}

// NewLocalForConfig creates the clients and the caches; Start fills the caches. operatorNamespace is the namespace in which a
// Deployment knative-operator is the Knative Operator.
func NewLocalForConfig(config *rest.Config, operatorNamespace string) (*LocalHub, error) {
	clients, err := NewClients(config)
	if err != nil {
		return nil, err
	}
	return NewLocalForClients(clients, operatorNamespace)
}

// NewLocalForClients creates the caches of the clients; Start fills the caches. The LocalHub needs the clients AddOns, Configs
// and Kube.
func NewLocalForClients(clients Clients, operatorNamespace string) (*LocalHub, error) {
	h := &LocalHub{
		Clients: clients, operator: newKnativeOperator(clients.Kube, operatorNamespace),
		configs:   map[api.Component]dynamicinformer.DynamicSharedInformerFactory{},
		revisions: map[api.Component]kubeinformers.SharedInformerFactory{},
		addOns:    addoninformers.NewSharedInformerFactoryWithOptions(clients.AddOns, resync, addoninformers.WithTransform(stripManagedFields)),
	}
	var err error
	for _, c := range api.Components() {
		h.configs[c] = dynamicinformer.NewFilteredDynamicSharedInformerFactory(clients.Configs, resync, c.InstallNamespace(), nil)
		h.revisions[c] = kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync, kubeinformers.WithNamespace(c.InstallNamespace()),
			kubeinformers.WithTweakListOptions(selectLabels(api.RevisionLabel+"="+string(c))), kubeinformers.WithTransform(stripManagedFields))
		configuration := h.Configuration(c)
		err = errors.Join(err, configuration.Revisions.Informer().AddIndexers(revision.Indexers()),
			configuration.Configs.Informer().SetTransform(stripManagedFields))
	}
	return h, errors.Join(err, h.addOns.Addon().V1beta1().ManagedClusterAddOns().Informer().AddIndexers(cache.Indexers{
		index.AddonByConfig: index.IndexAddonByConfig,
	}))
}

// Configuration returns the caches and the clients for the KnativeServings or the KnativeEventings of the usual namespace. An
// add-on may name a local resource as the configuration of a cluster: the References are to revisions of local resources.
func (h *LocalHub) Configuration(component api.Component) Configuration {
	addOns := h.addOns.Addon().V1beta1()
	return Configuration{
		Component: component, Clients: h.Clients,
		Configs:    h.configs[component].ForResource(component.Resource()),
		Revisions:  h.revisions[component].Apps().V1().ControllerRevisions(),
		References: newReferences(addOns.ManagedClusterAddOns(), addOns.ClusterManagementAddOns()),
		Operator:   h.operator,
	}
}

// KnativeOperator returns the cache of the Knative Operator's Deployment.
func (h *LocalHub) KnativeOperator() *KnativeOperator { return h.operator }

// Start fills the caches and returns when all caches are full.
func (h *LocalHub) Start(ctx context.Context) error {
	addOns := h.addOns.Addon().V1beta1()
	synced := map[string]cache.InformerSynced{
		"deployments.apps (the Knative Operator's)":                h.operator.Informer().HasSynced,
		"managedclusteraddons.addon.open-cluster-management.io":    addOns.ManagedClusterAddOns().Informer().HasSynced,
		"clustermanagementaddons.addon.open-cluster-management.io": addOns.ClusterManagementAddOns().Informer().HasSynced,
	}
	for _, c := range api.Components() {
		configuration := h.Configuration(c)
		synced[c.Resource().GroupResource().String()] = configuration.Configs.Informer().HasSynced
		synced["controllerrevisions.apps of "+string(c)] = configuration.Revisions.Informer().HasSynced
		h.configs[c].Start(ctx.Done())
		h.revisions[c].Start(ctx.Done())
	}
	h.operator.start(ctx)
	h.addOns.Start(ctx.Done())
	return awaitSync(ctx, synced, syncWarning)
}
