// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	profileclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"open-cluster-management.io/addon-framework/pkg/index"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// resync is the interval at which informers send every object to their handlers again. The resync is a safety net: every
// change is an event.
const resync = 10 * time.Minute

// stripManagedFields removes metadata.managedFields, which no reader of the caches needs.
var stripManagedFields = crcache.TransformStripManagedFields() //nolint:gochecknoglobals // a constant function

// Hub holds the clients and the caches of a hub. The methods in caches.go return the caches.
type Hub struct {
	Clients Clients

	addOns   addoninformers.SharedInformerFactory
	clusters clusterinformers.SharedInformerFactory
	configs  dynamicinformer.DynamicSharedInformerFactory
	// payloads selects works with OCM's add-on label and without api.FoundationLabel, foundations selects works with
	// api.FoundationLabel. The two are apart because addon-framework deletes each work of its informer that the framework did
	// not create.
	payloads, foundations workinformers.SharedInformerFactory
	// revisions selects ControllerRevisions with api.RevisionLabel: a hub has many others.
	revisions kubeinformers.SharedInformerFactory
	// scores selects AddOnPlacementScores with the name api.ScoresName: other programs score clusters too.
	scores   clusterinformers.SharedInformerFactory
	profiles *ClusterProfiles
	fleets   *KnativeFleets
	// inventoryDecisions holds the PlacementDecisions of SIG Multicluster, not OCM's.
	inventoryDecisions *InventoryDecisions
	operator           *KnativeOperator
}

// NewForConfig creates the clients and the caches; Start fills the caches. operatorNamespace is the namespace in which a
// Deployment knative-operator is the Knative Operator.
func NewForConfig(config *rest.Config, operatorNamespace string) (*Hub, error) {
	clients, err := NewClients(config)
	if err != nil {
		return nil, err
	}
	return NewForClients(clients, operatorNamespace)
}

// NewForClients creates the caches of the clients; Start fills the caches.
func NewForClients(clients Clients, operatorNamespace string) (*Hub, error) {
	components := "in (" + string(api.Serving) + "," + string(api.Eventing) + ")"
	var histories []string
	for _, kind := range revision.Kinds() {
		histories = append(histories, kind.RevisionLabelValue())
	}
	works := newWorkSharing()
	h := &Hub{
		Clients: clients,
		addOns: addoninformers.NewSharedInformerFactoryWithOptions(clients.AddOns, resync,
			addoninformers.WithTransform(stripManagedFields)),
		clusters: clusterinformers.NewSharedInformerFactoryWithOptions(clients.Clusters, resync,
			clusterinformers.WithTransform(stripManagedFields)),
		configs: dynamicinformer.NewDynamicSharedInformerFactory(clients.Configs, resync),
		payloads: workinformers.NewSharedInformerFactoryWithOptions(clients.Works, resync,
			workinformers.WithTweakListOptions(selectLabels(addonv1beta1.AddonLabelKey+" "+components+",!"+api.FoundationLabel)),
			workinformers.WithTransform(works.transform)),
		foundations: workinformers.NewSharedInformerFactoryWithOptions(clients.Works, resync,
			workinformers.WithTweakListOptions(selectLabels(api.FoundationLabel+" "+components)),
			workinformers.WithTransform(works.transform)),
		revisions: kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
			kubeinformers.WithTweakListOptions(selectLabels(api.RevisionLabel+" in ("+strings.Join(histories, ",")+")")),
			kubeinformers.WithTransform(stripManagedFields)),
		scores: clusterinformers.NewSharedInformerFactoryWithOptions(clients.Clusters, resync,
			clusterinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + api.ScoresName }),
			clusterinformers.WithTransform(stripManagedFields)),
		profiles: newClusterProfiles(clients.Profiles), fleets: newKnativeFleets(clients.Kube.Discovery(), clients.Configs),
		inventoryDecisions: newInventoryDecisions(clients.Profiles),
		operator:           newKnativeOperator(clients.Kube, operatorNamespace),
	}
	h.rememberWrites()
	return h, errors.Join(h.addIndexers(), h.stripConfigs())
}

// rememberWrites makes the clients remember the writes of ManifestWorks and ManagedClusterAddOns, so that a cache that is behind leads to no
// request in vain.
func (h *Hub) rememberWrites() {
	works := &workWrites{newLastWrites(workv1.Resource("manifestworks")), h.Payloads().Informer(), h.Foundations().Informer()}
	h.Clients.Works = WrapWorks(h.Clients.Works, works.wrap)
	h.Clients.AddOns = &rememberingAddOnClient{h.Clients.AddOns, newLastWrites(addonv1beta1.Resource("managedclusteraddons"))}
}

// stripConfigs makes the caches of ConfigFactory strip managed fields: the factory has no option for a transformation.
func (h *Hub) stripConfigs() error {
	err := h.AddOnDeploymentConfigs().Informer().SetTransform(stripManagedFields)
	for _, c := range api.Components() {
		err = errors.Join(err, h.Configs(c).Informer().SetTransform(stripManagedFields))
	}
	return err
}

func selectLabels(selector string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.LabelSelector = selector }
}

// addIndexers adds the indexes that addon-framework and pkg/revision read. Other readers add their indexes before Start.
func (h *Hub) addIndexers() error {
	return errors.Join(
		h.ControllerRevisions().Informer().AddIndexers(revision.Indexers()),
		h.Payloads().Informer().AddIndexers(cache.Indexers{
			index.ManifestWorkByAddon:           index.IndexManifestWorkByAddon,
			index.ManifestWorkByHostedAddon:     index.IndexManifestWorkByHostedAddon,
			index.ManifestWorkHookByHostedAddon: index.IndexManifestWorkHookByHostedAddon,
		}),
		h.ManagedClusterAddOns().Informer().AddIndexers(cache.Indexers{
			index.ManagedClusterAddonByNamespace: index.IndexManagedClusterAddonByNamespace,
			index.AddonByConfig:                  index.IndexAddonByConfig,
		}),
		h.ManagedClusterAddOns().Informer().AddIndexers(revision.AddOnIndexers()),
		h.ClusterManagementAddOns().Informer().AddIndexers(cache.Indexers{
			index.ClusterManagementAddonByConfig: index.IndexClusterManagementAddonByConfig,
		}),
	)
}

// Start fills the caches and returns when all caches are full: a reader of an empty cache would take every object for deleted.
func (h *Hub) Start(ctx context.Context) error {
	synced := h.listSynced() // requests the informers from the factories, which start only requested informers
	for _, optional := range []*optionalKind{&h.profiles.optionalKind, &h.fleets.optionalKind, &h.inventoryDecisions.optionalKind} {
		filled, err := optional.start(ctx)
		if err != nil {
			return err
		}
		if filled != nil {
			synced[optional.resource+"."+optional.kind.Group] = filled
		}
	}
	h.operator.start(ctx)
	h.revisions.Start(ctx.Done())
	h.addOns.Start(ctx.Done())
	h.clusters.Start(ctx.Done())
	h.scores.Start(ctx.Done())
	h.configs.Start(ctx.Done())
	h.payloads.Start(ctx.Done())
	h.foundations.Start(ctx.Done())

	return awaitSync(ctx, synced, syncWarning)
}

// listSynced returns HasSynced of each cache except ClusterProfiles, by the name that the log gives the cache.
func (h *Hub) listSynced() map[string]cache.InformerSynced {
	out := map[string]cache.InformerSynced{
		"controllerrevisions.apps (ours)":                              h.ControllerRevisions().Informer().HasSynced,
		"deployments.apps (the Knative Operator's)":                    h.operator.Informer().HasSynced,
		"managedclustersetbindings.cluster.open-cluster-management.io": h.ManagedClusterSetBindings().Informer().HasSynced,
		"addonplacementscores.cluster.open-cluster-management.io":      h.AddOnPlacementScores().Informer().HasSynced,
		"placements.cluster.open-cluster-management.io":                h.Placements().Informer().HasSynced,
		"placementdecisions.cluster.open-cluster-management.io":        h.PlacementDecisions().Informer().HasSynced,
		"managedclustersets.cluster.open-cluster-management.io":        h.ManagedClusterSets().Informer().HasSynced,
		"managedclusteraddons.addon.open-cluster-management.io":        h.ManagedClusterAddOns().Informer().HasSynced,
		"clustermanagementaddons.addon.open-cluster-management.io":     h.ClusterManagementAddOns().Informer().HasSynced,
		"managedclusters.cluster.open-cluster-management.io":           h.ManagedClusters().Informer().HasSynced,
		"manifestworks.work.open-cluster-management.io":                h.Payloads().Informer().HasSynced,
		"manifestworks.work.open-cluster-management.io (ours)":         h.Foundations().Informer().HasSynced,
	}
	out[utils.AddOnDeploymentConfigGVR.GroupResource().String()] = h.AddOnDeploymentConfigs().Informer().HasSynced
	for _, c := range api.Components() {
		out[schema.GroupResource{Group: api.Group, Resource: c.Resource().Resource}.String()] = h.Configs(c).Informer().HasSynced
	}
	return out
}

// Clients are the clients of one hub.
type Clients struct {
	AddOns   addonclient.Interface
	Clusters clusterclient.Interface
	// Configs reads and writes KnativeServings, KnativeEventings and AddOnDeploymentConfigs.
	Configs dynamic.Interface
	// Kube reads and writes ControllerRevisions, and reads the Deployment of the Knative Operator.
	Kube     kubernetes.Interface
	Profiles profileclient.Interface
	Works    workclient.Interface
}

// NewClients creates all clients with one configuration.
func NewClients(config *rest.Config) (Clients, error) {
	var out Clients
	var errs [6]error
	out.AddOns, errs[0] = addonclient.NewForConfig(config)
	out.Clusters, errs[1] = clusterclient.NewForConfig(config)
	out.Configs, errs[2] = dynamic.NewForConfig(config)
	out.Kube, errs[3] = kubernetes.NewForConfig(config)
	out.Profiles, errs[4] = profileclient.NewForConfig(config)
	out.Works, errs[5] = workclient.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return Clients{}, fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	return out, nil
}
