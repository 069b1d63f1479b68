// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/addon-framework/pkg/index"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/guard"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// resync is how often informers hand their objects on again; a safety net, since every change is an event.
const resync = 10 * time.Minute

// Hub is the clients and the caches of a hub. addon-framework and our controllers read from the same caches.
type Hub struct {
	AddOnClient addonclient.Interface
	WorkClient  workclient.Interface
	// ConfigClient writes KnativeServings and KnativeEventings, RevisionClient their revisions.
	ConfigClient   dynamic.Interface
	RevisionClient kubernetes.Interface

	addOns   addoninformers.SharedInformerFactory
	clusters clusterinformers.SharedInformerFactory
	configs  dynamicinformer.DynamicSharedInformerFactory
	// payloads are works with only OCM's label of one of our add-ons, foundations those with ours. addon-framework deletes
	// what it finds among the former and did not make.
	payloads, foundations workinformers.SharedInformerFactory
	// revisions are ControllerRevisions with our label: the hub has many others.
	revisions kubeinformers.SharedInformerFactory
	// scores are the AddOnPlacementScores with our name: others score clusters too.
	scores   clusterinformers.SharedInformerFactory
	profiles *profiles
	operator *operator

	clusterClient clusterclient.Interface
}

// withoutManagedFields takes from objects what nobody here reads.
var withoutManagedFields = crcache.TransformStripManagedFields() //nolint:gochecknoglobals // a constant function

// NewHub makes the clients and the caches; Start fills them.
func NewHub(config *rest.Config) (*Hub, error) {
	var errs []error
	remember := func(err error) { errs = append(errs, err) }
	h := &Hub{}
	kube, err := kubernetes.NewForConfig(config)
	remember(err)
	clusters, err := clusterclient.NewForConfig(config)
	remember(err)
	h.ConfigClient, err = dynamic.NewForConfig(config)
	remember(err)
	h.AddOnClient, err = addonclient.NewForConfig(config)
	remember(err)
	h.WorkClient, err = workclient.NewForConfig(config)
	remember(err)
	h.profiles, err = newProfiles(config)
	remember(err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	h.operator, h.RevisionClient = newOperator(kube), kube
	ours := "in (" + string(api.Serving) + "," + string(api.Eventing) + ")"
	selected := func(selector string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.LabelSelector = selector }
	}
	payloads := selected(addonv1beta1.AddonLabelKey + " " + ours + ",!" + api.FoundationLabel)
	h.revisions = kubeinformers.NewSharedInformerFactoryWithOptions(kube, resync,
		kubeinformers.WithTweakListOptions(selected(api.RevisionLabel+" "+ours)), kubeinformers.WithTransform(withoutManagedFields))
	h.addOns = addoninformers.NewSharedInformerFactoryWithOptions(h.AddOnClient, resync,
		addoninformers.WithTransform(withoutManagedFields))
	h.clusters = clusterinformers.NewSharedInformerFactoryWithOptions(clusters, resync,
		clusterinformers.WithTransform(withoutManagedFields))
	h.clusterClient = clusters
	h.scores = clusterinformers.NewSharedInformerFactoryWithOptions(clusters, resync,
		clusterinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + api.ScoresName }),
		clusterinformers.WithTransform(withoutManagedFields))
	h.configs = dynamicinformer.NewDynamicSharedInformerFactory(h.ConfigClient, resync)
	h.payloads = workinformers.NewSharedInformerFactoryWithOptions(h.WorkClient, resync,
		workinformers.WithTweakListOptions(payloads), workinformers.WithTransform(withoutManagedFields))
	h.foundations = workinformers.NewSharedInformerFactoryWithOptions(h.WorkClient, resync,
		workinformers.WithTweakListOptions(selected(api.FoundationLabel+" "+ours)),
		workinformers.WithTransform(withoutManagedFields))
	return h, h.addIndexers()
}

// addIndexers adds the indexes that addon-framework's controllers and ours expect.
func (h *Hub) addIndexers() error {
	addOns := h.addOns.Addon().V1beta1()
	for _, informer := range h.configInformers() {
		if err := informer.AddIndexers(target.Indexers()); err != nil {
			return fmt.Errorf("cannot index configurations: %w", err)
		}
	}
	return errors.Join(
		h.revisionInformer().AddIndexers(revision.Indexers()),
		addOns.ManagedClusterAddOns().Informer().AddIndexers(guard.AddOnIndexers()),
		h.foundations.Work().V1().ManifestWorks().Informer().AddIndexers(guard.FoundationIndexers()),
		h.payloads.Work().V1().ManifestWorks().Informer().AddIndexers(cache.Indexers{
			index.ManifestWorkByAddon:           index.IndexManifestWorkByAddon,
			index.ManifestWorkByHostedAddon:     index.IndexManifestWorkByHostedAddon,
			index.ManifestWorkHookByHostedAddon: index.IndexManifestWorkHookByHostedAddon,
		}),
		addOns.ManagedClusterAddOns().Informer().AddIndexers(cache.Indexers{
			index.ManagedClusterAddonByNamespace: index.IndexManagedClusterAddonByNamespace,
			index.AddonByConfig:                  index.IndexAddonByConfig,
		}),
		addOns.ClusterManagementAddOns().Informer().AddIndexers(cache.Indexers{
			index.ClusterManagementAddonByConfig: index.IndexClusterManagementAddonByConfig,
		}),
	)
}

// Configs are the listers of KnativeServings and KnativeEventings.
func (h *Hub) Configs() map[api.Component]cache.GenericLister {
	out := map[api.Component]cache.GenericLister{}
	for _, c := range api.Components() {
		out[c] = h.configs.ForResource(c.Resource()).Lister()
	}
	return out
}

func (h *Hub) deploymentConfigs() kubeinformers.GenericInformer {
	return h.configs.ForResource(utils.AddOnDeploymentConfigGVR)
}

func (h *Hub) configIndexers() map[api.Component]cache.Indexer {
	out := map[api.Component]cache.Indexer{}
	for c, informer := range h.configInformers() {
		out[c] = informer.GetIndexer()
	}
	return out
}

func (h *Hub) configInformers() map[api.Component]cache.SharedIndexInformer {
	out := map[api.Component]cache.SharedIndexInformer{}
	for _, c := range api.Components() {
		out[c] = h.configs.ForResource(c.Resource()).Informer()
	}
	return out
}

func (h *Hub) references() *revision.References {
	addOns := h.addOns.Addon().V1beta1()
	return &revision.References{AddOns: addOns.ManagedClusterAddOns().Informer().GetIndexer(), Definitions: addOns.ClusterManagementAddOns().Lister()}
}

func (h *Hub) revisionInformer() cache.SharedIndexInformer {
	return h.revisions.Apps().V1().ControllerRevisions().Informer()
}

// syncWarning is how often the manager says which caches are not full yet.
const syncWarning = 20 * time.Second

// Start fills the caches and waits until they are full: whoever reads an empty cache would take everything for gone.
func (h *Hub) Start(ctx context.Context) error {
	synced := h.synced() // which also tells the factories what is to be started
	profilesSynced, err := h.profiles.start(ctx)
	if err != nil {
		return err
	}
	if profilesSynced != nil {
		synced["clusterprofiles.multicluster.x-k8s.io"] = profilesSynced
	}
	h.operator.factory.Start(ctx.Done())
	h.revisions.Start(ctx.Done())
	h.addOns.Start(ctx.Done())
	h.clusters.Start(ctx.Done())
	h.scores.Start(ctx.Done())
	h.configs.Start(ctx.Done())
	h.payloads.Start(ctx.Done())
	h.foundations.Start(ctx.Done())

	return awaitSync(ctx, synced, syncWarning)
}

// awaitSync waits until all caches are full, however long that takes, and says every so often which ones are not: a large hub
// may need minutes, and a manager that gives up lists everything again.
func awaitSync(ctx context.Context, synced map[string]cache.InformerSynced, every time.Duration) error {
	for {
		wait, cancel := context.WithTimeout(ctx, every)
		done := cache.WaitForCacheSync(wait.Done(), slices.Collect(maps.Values(synced))...)
		cancel()
		if done {
			return nil
		}
		var missing []string
		for name, full := range synced {
			if !full() {
				missing = append(missing, name)
			}
		}
		slices.Sort(missing)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("cannot list %s: %w", strings.Join(missing, ", "), err)
		}
		log.FromContext(ctx).Info("still listing; if this stays: are their CRDs installed, and may this service account list and watch them?",
			"resources", missing)
	}
}

func (h *Hub) synced() map[string]cache.InformerSynced {
	addOns := h.addOns.Addon().V1beta1()
	clusters := h.clusters.Cluster()
	out := map[string]cache.InformerSynced{
		"controllerrevisions.apps (ours)":                              h.revisionInformer().HasSynced,
		"deployments.apps (the Knative Operator's)":                    h.operator.informer().HasSynced,
		"managedclustersetbindings.cluster.open-cluster-management.io": clusters.V1beta2().ManagedClusterSetBindings().Informer().HasSynced,
		"addonplacementscores.cluster.open-cluster-management.io":      h.scores.Cluster().V1alpha1().AddOnPlacementScores().Informer().HasSynced,
		"placements.cluster.open-cluster-management.io":                clusters.V1beta1().Placements().Informer().HasSynced,
		"placementdecisions.cluster.open-cluster-management.io":        clusters.V1beta1().PlacementDecisions().Informer().HasSynced,
		"managedclustersets.cluster.open-cluster-management.io":        clusters.V1beta2().ManagedClusterSets().Informer().HasSynced,
		"managedclusteraddons.addon.open-cluster-management.io":        addOns.ManagedClusterAddOns().Informer().HasSynced,
		"clustermanagementaddons.addon.open-cluster-management.io":     addOns.ClusterManagementAddOns().Informer().HasSynced,
		"managedclusters.cluster.open-cluster-management.io":           clusters.V1().ManagedClusters().Informer().HasSynced,
		"manifestworks.work.open-cluster-management.io":                h.payloads.Work().V1().ManifestWorks().Informer().HasSynced,
		"manifestworks.work.open-cluster-management.io (ours)":         h.foundations.Work().V1().ManifestWorks().Informer().HasSynced,
	}
	out[utils.AddOnDeploymentConfigGVR.GroupResource().String()] = h.deploymentConfigs().Informer().HasSynced
	for c, informer := range h.configInformers() {
		out[schema.GroupResource{Group: api.Group, Resource: c.Resource().Resource}.String()] = informer.HasSynced
	}
	return out
}
