// Copyright Contributors to the Open Cluster Management project

package foundation

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
	"sigs.k8s.io/controller-runtime/pkg/controller"
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
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Informers are what the controller watches.
type Informers struct {
	AddOns, Clusters, Foundations, Payloads cache.SharedIndexInformer
	// Configs are the informers of KnativeServings and KnativeEventings.
	Configs map[api.Component]cache.SharedIndexInformer
	// Profiles, and Bindings and Sets of managed clusters, decide whether a configuration with a reference may be used.
	Profiles, Bindings, Sets cache.SharedIndexInformer
	// Operators are the Deployments of the Knative Operator on the hub.
	Operators cache.SharedIndexInformer
	// Revisions are what add-ons may be waiting for.
	Revisions cache.SharedIndexInformer
	// Deployments are AddOnDeploymentConfigs.
	Deployments cache.SharedIndexInformer
}

// workers is how many add-ons are served at a time: what one waits for is the hub's API server.
const workers = 10

// SetupWithManager makes the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, in Informers) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("foundation").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(watch(in.AddOns, sameKey)).
		WatchesRawSource(watch(in.Clusters, addOnsOfCluster, clusterChanged())).
		WatchesRawSource(watch(in.Deployments, r.addOnsOfDeployment, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(watch(in.Profiles, addOnsOfCluster)). // a profile has the name of its cluster
		WatchesRawSource(watch(in.Bindings, r.addOnsWithReference)).
		WatchesRawSource(watch(in.Sets, r.addOnsWithReference)).
		WatchesRawSource(watch(in.Operators, r.addOnsWithReference)).
		WatchesRawSource(watch(in.Revisions, r.addOnsOfRevision, created())).
		WatchesRawSource(watch(in.Foundations, addOnOfLabel(api.FoundationLabel))).
		WatchesRawSource(watch(in.Payloads, addOnOfLabel(addonv1beta1.AddonLabelKey)))
	for component, informer := range in.Configs {
		b = b.WatchesRawSource(watch(informer, r.addOnsOfConfig(component), specChanged()))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("cannot set up the foundation controller: %w", err)
	}
	return nil
}

func watch(informer cache.SharedIndexInformer, requests handler.MapFunc, predicates ...predicate.Predicate) source.Source {
	return &source.Informer{Informer: informer, Handler: handler.EnqueueRequestsFromMapFunc(requests), Predicates: predicates}
}

// specChanged passes over what only changes the status: a configuration may be that of a thousand clusters.
func specChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// clusterChanged passes over what no add-on depends on: the agents of thousands of clusters report their capacity and their
// versions. What is left are acceptance, conditions and leaving, and what configurations may use: labels and claims.
func clusterChanged() predicate.Predicate {
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

// created passes over what changes or goes.
func created() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func sameKey(_ context.Context, o client.Object) []reconcile.Request {
	return request(o.GetNamespace(), o.GetName())
}

func request(cluster, addOn string) []reconcile.Request {
	if _, ok := componentOf(addOn); !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: cluster, Name: addOn}}}
}

func addOnsOfCluster(_ context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, c := range api.Components() {
		out = append(out, request(o.GetName(), c.AddOnName())...)
	}
	return out
}

// addOnsWithReference finds the add-ons that consent is about: those whose configuration has a reference, whoever gave it to
// them, and those that were made for one and have no configuration yet.
func (r *Reconciler) addOnsWithReference(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.addOnsThat(ctx, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		return a.Annotations[api.InstalledForAnnotation] != "" || r.refers(a)
	})
}

// refers tells that the add-on's configuration has a reference.
func (r *Reconciler) refers(a *addonv1beta1.ManagedClusterAddOn) bool {
	configs := r.Configs[api.Component(a.Name)]
	name, ok := revision.ConfigOf(a)
	if !ok || configs == nil {
		return false
	}
	o, _, err := configs.GetByKey(name.String())
	config, ok := o.(*unstructured.Unstructured)
	if err != nil || !ok {
		return false // nothing is delivered without it, and it brings the add-on back
	}
	_, ok = target.ReferenceOf(config)
	return ok
}

func addOnOfLabel(label string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		return request(o.GetNamespace(), o.GetLabels()[label])
	}
}

// addOnsOfConfig finds the add-ons that a KnativeServing or KnativeEventing configures.
func (r *Reconciler) addOnsOfConfig(component api.Component) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.addOnsUsing(ctx, component.Resource(), client.ObjectKeyFromObject(o), func(a *addonv1beta1.ManagedClusterAddOn) bool {
			config, ok := revision.ConfigOf(a)
			return ok && a.Name == component.AddOnName() && config == client.ObjectKeyFromObject(o)
		})
	}
}

// addOnsOfDeployment finds the add-ons that an AddOnDeploymentConfig is of.
func (r *Reconciler) addOnsOfDeployment(ctx context.Context, o client.Object) []reconcile.Request {
	return r.addOnsUsing(ctx, utils.AddOnDeploymentConfigGVR, client.ObjectKeyFromObject(o), func(a *addonv1beta1.ManagedClusterAddOn) bool {
		desired := addon.DeploymentConfigOf(a)
		return desired != nil && desired.Namespace == o.GetNamespace() && desired.Name == o.GetName()
	})
}

// addOnsOfRevision finds the add-ons that are to have what a revision holds: OCM may have referred to it before it was
// recorded.
func (r *Reconciler) addOnsOfRevision(ctx context.Context, o client.Object) []reconcile.Request {
	rev, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil
	}
	component, name, ok := revision.ResourceOf(rev)
	if !ok {
		return nil
	}
	want := addonv1beta1.ConfigSpecHash{
		ConfigReferent: addonv1beta1.ConfigReferent{Namespace: name.Namespace, Name: name.Name}, SpecHash: revision.HashOf(rev),
	}
	return r.addOnsUsing(ctx, component.Resource(), name, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		desired := revision.Desired(a)
		return desired != nil && a.Name == component.AddOnName() && *desired == want
	})
}

// addOnsUsing finds add-ons among those that OCM gives a configuration to.
func (r *Reconciler) addOnsUsing(
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
			out = append(out, request(a.Namespace, a.Name)...)
		}
	}
	return out
}

func (r *Reconciler) addOnsThat(ctx context.Context, match func(*addonv1beta1.ManagedClusterAddOn) bool) []reconcile.Request {
	addOns, err := r.AddOns.List(labels.Everything())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list ManagedClusterAddOns")
		return nil
	}
	var out []reconcile.Request
	for _, a := range addOns {
		if match(a) {
			out = append(out, request(a.Namespace, a.Name)...)
		}
	}
	return out
}
