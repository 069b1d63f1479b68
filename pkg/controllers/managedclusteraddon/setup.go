// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/addon-framework/pkg/index"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// workers is the number of add-ons that the controller reconciles at a time: a pass mostly waits for the hub's API server.
const workers = 10

// SetupWithManager makes the manager run the controller. Bindings and sets of managed clusters, ClusterProfiles and the Knative
// Operator decide whether a configuration with a reference may be used; ClusterManagementAddOns and PlacementDecisions determine the
// configurations of add-ons.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	revisions := h.ControllerRevisions().Informer()
	b := ctrl.NewControllerManagedBy(mgr).Named("managedclusteraddon").
		WithOptions(reconciler.Options(workers)).
		WatchesRawSource(watchInformer(h.ManagedClusterAddOns().Informer(), requestOfAddOn)).
		WatchesRawSource(watchInformer(h.ManagedClusters().Informer(), requestsOfCluster, clusterChangedPredicate())).
		WatchesRawSource(watchInformer(h.AddOnDeploymentConfigs().Informer(), r.requestsOfDeploymentConfig, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(watchInformer(h.ClusterProfiles().Informer(), requestsOfCluster)). // a profile has the name of its cluster
		WatchesRawSource(h.ClusterProfiles().NewErrorSource(r.requestsWithReference)).
		WatchesRawSource(watchInformer(h.ManagedClusterSetBindings().Informer(), r.requestsWithReference)).
		WatchesRawSource(watchInformer(h.ManagedClusterSets().Informer(), r.requestsWithReference, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(watchInformer(h.KnativeOperator().Informer(), r.requestsWithReference)).
		WatchesRawSource(watchInformer(revisions, r.requestsOfRevision, creationPredicate())). // an add-on may wait for a revision
		WatchesRawSource(watchInformer(revisions, requestOfHandover)).
		WatchesRawSource(watchInformer(h.ClusterManagementAddOns().Informer(), r.requestsNotGranted, specChangedPredicate())).
		WatchesRawSource(watchInformer(h.PlacementDecisions().Informer(), r.requestsNotGranted)).
		WatchesRawSource(watchInformer(h.Foundations().Informer(), requestOfLabel(api.FoundationLabel))).
		WatchesRawSource(watchInformer(h.Payloads().Informer(), requestOfLabel(addonv1beta1.AddonLabelKey)))
	for _, c := range api.Components() {
		b = b.WatchesRawSource(watchInformer(h.Configs(c).Informer(), r.requestsOfConfig(c), specChangedPredicate()))
	}
	if err := b.Complete(reconciler.Wrap(r, reconciler.OfAddOn)); err != nil {
		return fmt.Errorf("cannot set up the ManagedClusterAddOn controller: %w", err)
	}
	return nil
}

func watchInformer(informer cache.SharedIndexInformer, requests handler.MapFunc, predicates ...predicate.Predicate) source.Source {
	return &source.Informer{Informer: informer, Handler: handler.EnqueueRequestsFromMapFunc(requests), Predicates: predicates}
}

// specChangedPredicate drops updates of the status: a configuration may apply to a thousand clusters.
func specChangedPredicate() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// clusterChangedPredicate drops updates that no add-on depends on: the agents of thousands of clusters report capacity and versions.
// Acceptance, conditions, annotations and the deletion pass, and labels and claims, which configurations may use.
func clusterChangedPredicate() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*clusterv1.ManagedCluster)
		after, ok2 := e.ObjectNew.(*clusterv1.ManagedCluster)
		if !ok1 || !ok2 {
			return true
		}
		return before.Generation != after.Generation || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
			!slices.Equal(before.Status.ClusterClaims, after.Status.ClusterClaims) ||
			!slices.Equal(before.Status.Conditions, after.Status.Conditions)
	}}
}

// creationPredicate drops updates and deletions.
func creationPredicate() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func requestOfAddOn(_ context.Context, o client.Object) []reconcile.Request {
	return requestOf(o.GetNamespace(), o.GetName())
}

func requestOf(cluster, addOn string) []reconcile.Request {
	if _, ok := api.ComponentOfAddOn(addOn); !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: cluster, Name: addOn}}}
}

func requestsOfCluster(_ context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, c := range api.Components() {
		out = append(out, requestOf(o.GetName(), c.AddOnName())...)
	}
	return out
}

// requestsWithReference enqueues the add-ons that need consent to a reference: add-ons whose configuration has a reference, and add-ons
// that were created for a reference and have no configuration yet.
func (r *Reconciler) requestsWithReference(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requestsMatching(ctx, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		return a.Annotations[api.InstalledForAnnotation] != "" || r.hasReference(a)
	})
}

// hasReference reports whether the configuration of the add-on has a reference.
func (r *Reconciler) hasReference(a *addonv1beta1.ManagedClusterAddOn) bool {
	name, ok := revision.ConfigOf(a)
	if !ok {
		return false
	}
	config := r.findConfig(api.Component(a.Name), name)
	if config == nil {
		return false // the creation of the configuration enqueues the add-on
	}
	_, ok = target.ReferenceOf(config)
	return ok
}

// findConfig returns a resource from the caches, or nil.
func (r *Reconciler) findConfig(component api.Component, name types.NamespacedName) *unstructured.Unstructured {
	if r.Configs[component] == nil {
		return nil
	}
	o, _, _ := r.Configs[component].GetByKey(name.String()) // a cache in memory returns no error
	config, _ := o.(*unstructured.Unstructured)
	return config
}

func requestOfLabel(label string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		return requestOf(o.GetNamespace(), o.GetLabels()[label])
	}
}

// requestsOfConfig enqueues the add-ons that a KnativeServing or KnativeEventing configures.
func (r *Reconciler) requestsOfConfig(component api.Component) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.requestsUsingConfig(ctx, component.Resource(), client.ObjectKeyFromObject(o), func(a *addonv1beta1.ManagedClusterAddOn) bool {
			config, ok := revision.ConfigOf(a)
			return ok && a.Name == component.AddOnName() && config == client.ObjectKeyFromObject(o)
		})
	}
}

// requestsOfDeploymentConfig enqueues the add-ons that an AddOnDeploymentConfig configures.
func (r *Reconciler) requestsOfDeploymentConfig(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requestsUsingConfig(ctx, utils.AddOnDeploymentConfigGVR, client.ObjectKeyFromObject(o), func(a *addonv1beta1.ManagedClusterAddOn) bool {
		desired := addon.DeploymentConfigOf(a)
		return desired != nil && desired.Namespace == o.GetNamespace() && desired.Name == o.GetName()
	})
}

// requestsOfRevision enqueues the add-ons that wait for the spec of a revision: OCM may refer to a spec before the spec is recorded.
func (r *Reconciler) requestsOfRevision(ctx context.Context, o client.Object) []reconcile.Request {
	rev, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil
	}
	kind, name, ok := revision.ResourceOf(rev)
	if !ok {
		return nil
	}
	want := addonv1beta1.ConfigSpecHash{
		ConfigReferent: addonv1beta1.ConfigReferent{Namespace: name.Namespace, Name: name.Name}, SpecHash: revision.HashOf(rev),
	}
	return r.requestsUsingConfig(ctx, kind.Resource(), name, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		desired, _ := revision.DesiredOf(a, revision.GroupResource(kind))
		return desired != nil && *desired == want
	})
}

// requestsUsingConfig enqueues the matching add-ons among the add-ons that OCM gives a configuration to.
func (r *Reconciler) requestsUsingConfig(
	ctx context.Context, resource schema.GroupVersionResource, config types.NamespacedName, match func(*addonv1beta1.ManagedClusterAddOn) bool,
) []reconcile.Request {
	objects, err := r.AddOnsByConfig.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s", resource.Group, resource.Resource, config))
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the ManagedClusterAddOns of a configuration")
		return nil
	}
	var out []reconcile.Request
	for _, o := range objects {
		if a, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok && match(a) {
			out = append(out, requestOf(a.Namespace, a.Name)...)
		}
	}
	return out
}

func (r *Reconciler) requestsMatching(ctx context.Context, match func(*addonv1beta1.ManagedClusterAddOn) bool) []reconcile.Request {
	addOns, err := r.AddOns.List(labels.Everything())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list ManagedClusterAddOns")
		return nil
	}
	var out []reconcile.Request
	for _, a := range addOns {
		if match(a) {
			out = append(out, requestOf(a.Namespace, a.Name)...)
		}
	}
	return out
}
