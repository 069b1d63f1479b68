// Copyright Contributors to the Open Cluster Management project

package hub

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic/dynamicinformer"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions/addon/v1beta1"
	clusterinformersv1 "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterinformersv1alpha1 "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1alpha1"
	clusterinformersv1beta1 "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1beta1"
	clusterinformersv1beta2 "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1beta2"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// AddOnDeploymentConfigs returns the cache of AddOnDeploymentConfigs, as unstructured objects.
func (h *Hub) AddOnDeploymentConfigs() kubeinformers.GenericInformer {
	return h.configs.ForResource(utils.AddOnDeploymentConfigGVR)
}

// AddOnPlacementScores returns the cache of the AddOnPlacementScores with the name api.ScoresName.
func (h *Hub) AddOnPlacementScores() clusterinformersv1alpha1.AddOnPlacementScoreInformer {
	return h.scores.Cluster().V1alpha1().AddOnPlacementScores()
}

// ClusterManagementAddOns returns the cache of ClusterManagementAddOns.
func (h *Hub) ClusterManagementAddOns() addoninformers.ClusterManagementAddOnInformer {
	return h.addOns.Addon().V1beta1().ClusterManagementAddOns()
}

// ClusterProfiles returns the cache of ClusterProfiles.
func (h *Hub) ClusterProfiles() *ClusterProfiles { return h.profiles }

// Configs returns the cache of the KnativeServings or the KnativeEventings, as unstructured objects.
func (h *Hub) Configs(component api.Component) kubeinformers.GenericInformer {
	return h.configs.ForResource(component.Resource())
}

// ConfigFactory returns the factory of the caches Configs and AddOnDeploymentConfigs, which addon-framework asks for.
func (h *Hub) ConfigFactory() dynamicinformer.DynamicSharedInformerFactory { return h.configs }

// ConfigIndexers returns the indexers of the KnativeServings and the KnativeEventings.
func (h *Hub) ConfigIndexers() map[api.Component]cache.Indexer {
	out := map[api.Component]cache.Indexer{}
	for _, c := range api.Components() {
		out[c] = h.Configs(c).Informer().GetIndexer()
	}
	return out
}

// ConfigListers returns the listers of the KnativeServings and the KnativeEventings.
func (h *Hub) ConfigListers() map[api.Component]cache.GenericLister {
	out := map[api.Component]cache.GenericLister{}
	for _, c := range api.Components() {
		out[c] = h.Configs(c).Lister()
	}
	return out
}

// Configuration returns the caches and the clients for the KnativeServings or the KnativeEventings of the whole hub.
func (h *Hub) Configuration(component api.Component) Configuration {
	return Configuration{
		Component: component, Clients: h.Clients, Configs: h.Configs(component), Revisions: h.ControllerRevisions(),
		References: h.NewReferences(), Operator: h.operator,
	}
}

// NewReferences returns a reader of the references that ManagedClusterAddOns and ClusterManagementAddOns have to specs.
func (h *Hub) NewReferences() *revision.References {
	return newReferences(h.ManagedClusterAddOns(), h.ClusterManagementAddOns())
}

// ControllerRevisions returns the cache of the ControllerRevisions with api.RevisionLabel, with revision.Indexers.
func (h *Hub) ControllerRevisions() appsinformers.ControllerRevisionInformer {
	return h.revisions.Apps().V1().ControllerRevisions()
}

// Foundations returns the cache of the ManifestWorks with api.FoundationLabel. The package comment says how the cache differs from the
// hub.
func (h *Hub) Foundations() workinformers.ManifestWorkInformer {
	return h.foundations.Work().V1().ManifestWorks()
}

// InventoryDecisions returns the cache of the PlacementDecisions of SIG Multicluster.
func (h *Hub) InventoryDecisions() *InventoryDecisions { return h.inventoryDecisions }

// KnativeFleets returns the cache of KnativeFleets.
func (h *Hub) KnativeFleets() *KnativeFleets { return h.fleets }

// KnativeOperator returns the cache of the Knative Operator's Deployment.
func (h *Hub) KnativeOperator() *KnativeOperator { return h.operator }

// ManagedClusterAddOns returns the cache of ManagedClusterAddOns, with the indexes of addon-framework.
func (h *Hub) ManagedClusterAddOns() addoninformers.ManagedClusterAddOnInformer {
	return h.addOns.Addon().V1beta1().ManagedClusterAddOns()
}

// ManagedClusters returns the cache of ManagedClusters.
func (h *Hub) ManagedClusters() clusterinformersv1.ManagedClusterInformer {
	return h.clusters.Cluster().V1().ManagedClusters()
}

// ManagedClusterSetBindings returns the cache of ManagedClusterSetBindings.
func (h *Hub) ManagedClusterSetBindings() clusterinformersv1beta2.ManagedClusterSetBindingInformer {
	return h.clusters.Cluster().V1beta2().ManagedClusterSetBindings()
}

// ManagedClusterSets returns the cache of ManagedClusterSets.
func (h *Hub) ManagedClusterSets() clusterinformersv1beta2.ManagedClusterSetInformer {
	return h.clusters.Cluster().V1beta2().ManagedClusterSets()
}

// NewSource returns a reader of all KnativeServings and KnativeEventings together with their revisions.
func (h *Hub) NewSource() *revision.Source {
	return revision.NewSource(h.ConfigListers(), h.ControllerRevisions().Informer().GetIndexer())
}

// Payloads returns the cache of the ManifestWorks with OCM's add-on label and without api.FoundationLabel, with the indexes of
// addon-framework. The package comment says how the cache differs from the hub.
func (h *Hub) Payloads() workinformers.ManifestWorkInformer {
	return h.payloads.Work().V1().ManifestWorks()
}

// PlacementDecisions returns the cache of PlacementDecisions.
func (h *Hub) PlacementDecisions() clusterinformersv1beta1.PlacementDecisionInformer {
	return h.clusters.Cluster().V1beta1().PlacementDecisions()
}

// Placements returns the cache of Placements.
func (h *Hub) Placements() clusterinformersv1beta1.PlacementInformer {
	return h.clusters.Cluster().V1beta1().Placements()
}

// IgnoreNotFound returns nil for an object that does not exist.
func IgnoreNotFound[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

func newReferences(addOns addoninformers.ManagedClusterAddOnInformer, definitions addoninformers.ClusterManagementAddOnInformer) *revision.References {
	return &revision.References{AddOns: addOns.Informer().GetIndexer(), Definitions: definitions.Lister()}
}

// Configuration holds the caches and the clients for the KnativeServings, or for the KnativeEventings. Hub and LocalHub both
// provide a Configuration of each component, so that the controllers of configurations serve both.
type Configuration struct {
	Component api.Component
	Clients   Clients
	// Configs is the cache of the KnativeServings or KnativeEventings.
	Configs kubeinformers.GenericInformer
	// Revisions is the cache of the ControllerRevisions that hold specs of Configs; other ControllerRevisions with
	// api.RevisionLabel may be in the cache too.
	Revisions appsinformers.ControllerRevisionInformer
	// References reads which revisions ManagedClusterAddOns and ClusterManagementAddOns refer to.
	References *revision.References
	// Operator finds the Knative Operator, which serves all Configs where the operator runs.
	Operator *KnativeOperator
}

// NewSource returns a reader of the Configs together with their revisions.
func (c Configuration) NewSource() *revision.Source {
	return revision.NewSource(map[api.Component]cache.GenericLister{c.Component: c.Configs.Lister()}, c.Revisions.Informer().GetIndexer())
}
