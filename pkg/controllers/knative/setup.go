// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

// workers is the number of resources that are reconciled at a time: maxDirectPasses for clusters that may be slow, and 10 for
// resources that wait for nothing but the API server of the hub.
const workers = maxDirectPasses + 10

// SetupWithManager makes the manager run the controller for the resources of a hub. requests come from the connections of direct
// deliveries. providers gets an event when the file of access providers has changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub, requests *RequestSource, providers <-chan event.GenericEvent) error {
	m := newRequestMapper(h.Configuration(r.Component))
	m.addOns, m.definitions = h.ManagedClusterAddOns().Informer().GetIndexer(), h.ClusterManagementAddOns().Lister()
	created := predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	generationChanged := predicate.GenerationChangedPredicate{}
	return r.addController(mgr, m, h.Configuration(r.Component), requests,
		source.Channel(providers, handler.EnqueueRequestsFromMapFunc(m.requestsForAll)),
		newSource(h.ManagedClusterAddOns(), m.requestsForAddOn),
		newSource(h.ClusterManagementAddOns(), m.requestsForDefinition, generationChanged), // the status reports on rollouts
		newSource(h.Foundations(), m.requestsForFoundation),
		newSource(h.Payloads(), m.requestsForWork(addonv1beta1.AddonLabelKey)),
		newSource(h.ManagedClusters(), m.requestsForCluster),
		newSource(h.ClusterProfiles(), m.requestsForCluster), // a ClusterProfile has the name of its cluster
		h.ClusterProfiles().NewErrorSource(m.requestsForAll),
		newSource(h.ManagedClusterSetBindings(), m.requestsForBinding),
		newSource(h.ManagedClusterSets(), m.requestsForAll, generationChanged), // the status counts the clusters of the set
		newSource(h.ControllerRevisions(), m.requestsForRevision, created),
		newSource(h.AddOnDeploymentConfigs(), m.requestsForDeployment, generationChanged),
	)
}

// SetupLocalWithManager makes the manager run the controller for the resources that a LocalHub installs on itself.
func (r *Reconciler) SetupLocalWithManager(mgr ctrl.Manager, local hub.Configuration, requests *RequestSource) error {
	return r.addController(mgr, newRequestMapper(local), local, requests)
}

// addController adds the controller with the sources and the watches that a Hub and a LocalHub have in common.
func (r *Reconciler) addController(mgr ctrl.Manager, m *requestMapper, c hub.Configuration, sources ...source.Source) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(r.Component.Resource().Resource).
		WithOptions(reconciler.Options(workers))
	for _, s := range append(sources, newSource(c.Configs, m.requestsForConfig), newSource(c.Operator, m.requestsForAll)) {
		b = b.WatchesRawSource(s)
	}
	if err := b.Complete(reconciler.Wrap(r, reconciler.OfComponent(r.Component))); err != nil {
		return fmt.Errorf("cannot set up the controller of %s: %w", r.Component.Kind(), err)
	}
	return nil
}

// cachedKind is a kind of objects in a cache of the hub.
type cachedKind interface {
	Informer() cache.SharedIndexInformer
}

func newSource(kind cachedKind, requests handler.MapFunc, predicates ...predicate.Predicate) source.Source {
	return &source.Informer{Informer: kind.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(requests), Predicates: predicates}
}
