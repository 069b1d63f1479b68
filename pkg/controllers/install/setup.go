// Copyright Contributors to the Open Cluster Management project

package install

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/addon-framework/pkg/index"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Informers are what the controller watches.
type Informers struct {
	Configs, AddOns, Definitions, Foundations, Payloads cache.SharedIndexInformer
	Clusters, Profiles, Bindings, Sets                  cache.SharedIndexInformer
	// Operators are the Deployments of the Knative Operator.
	Operators cache.SharedIndexInformer
	// Revisions are what resources may be waiting for.
	Revisions cache.SharedIndexInformer
	// Deployments are AddOnDeploymentConfigs.
	Deployments cache.SharedIndexInformer
}

// workers is how many resources are served at a time: what one waits for is the hub's API server.
const workers = 10

// SetupWithManager makes the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, in Informers) error {
	watches := []struct {
		informer cache.SharedIndexInformer
		requests handler.MapFunc
	}{
		{in.Configs, r.ofConfig},
		{in.AddOns, r.ofAddOn},
		{in.Foundations, r.ofLabel(api.FoundationLabel)},
		{in.Payloads, r.ofLabel(addonv1beta1.AddonLabelKey)},
		{in.Clusters, func(ctx context.Context, o client.Object) []reconcile.Request { return r.ofCluster(ctx, o.GetName()) }},
		{in.Profiles, r.ofProfile},
		{in.Bindings, r.ofBinding},
		{in.Operators, func(ctx context.Context, _ client.Object) []reconcile.Request { return r.all(ctx) }},
		{in.Sets, func(ctx context.Context, _ client.Object) []reconcile.Request { return r.all(ctx) }},
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("install-" + r.Component.Resource().Resource).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(&source.Informer{
			Informer: in.Definitions, Handler: handler.EnqueueRequestsFromMapFunc(r.ofDefinition),
			Predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}}, // its status tells of rollouts
		}).
		WatchesRawSource(&source.Informer{
			Informer: in.Deployments, Handler: handler.EnqueueRequestsFromMapFunc(r.ofDeployment),
			Predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
		}).
		WatchesRawSource(&source.Informer{
			Informer: in.Revisions, Handler: handler.EnqueueRequestsFromMapFunc(r.ofRevision),
			Predicates: []predicate.Predicate{predicate.Funcs{ // only new ones
				UpdateFunc: func(ctrlevent.UpdateEvent) bool { return false }, DeleteFunc: func(ctrlevent.DeleteEvent) bool { return false },
			}},
		})
	for _, w := range watches {
		b = b.WatchesRawSource(&source.Informer{Informer: w.informer, Handler: handler.EnqueueRequestsFromMapFunc(w.requests)})
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("cannot set up the install controller of %s: %w", r.Component.Kind(), err)
	}
	return nil
}

// ofConfig is the resource itself, and whoever waits for the same cluster.
func (r *Reconciler) ofConfig(ctx context.Context, o client.Object) []reconcile.Request {
	out := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	if config, ok := o.(*unstructured.Unstructured); ok {
		if ref, ok := target.ReferenceOf(config); ok {
			out = append(out, r.ofCluster(ctx, ref.Name)...)
		}
	}
	return out
}

// ofAddOn is whoever refers to the cluster of an add-on, and the resource that configures it.
func (r *Reconciler) ofAddOn(ctx context.Context, o client.Object) []reconcile.Request {
	addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn)
	if !ok || addOn.Name != r.Component.AddOnName() {
		return nil
	}
	out := r.ofCluster(ctx, addOn.Namespace)
	for _, find := range []func(*addonv1beta1.ManagedClusterAddOn) (types.NamespacedName, bool){revision.ConfigOf, target.ConfiguredBy} {
		if name, ok := find(addOn); ok {
			out = append(out, reconcile.Request{NamespacedName: name})
		}
	}
	return out
}

// ofDeployment is whom the add-ons concern that an AddOnDeploymentConfig is of.
func (r *Reconciler) ofDeployment(ctx context.Context, o client.Object) []reconcile.Request {
	addOns, err := r.AddOnsByConfig.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s",
		utils.AddOnDeploymentConfigGVR.Group, utils.AddOnDeploymentConfigGVR.Resource, client.ObjectKeyFromObject(o)))
	out := requests(ctx, nil, err)
	for _, o := range addOns {
		if addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok {
			out = append(out, r.ofAddOn(ctx, addOn)...)
		}
	}
	return out
}

func (r *Reconciler) ofDefinition(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetName() != r.Component.AddOnName() {
		return nil
	}
	return r.all(ctx)
}

// ofLabel is whoever refers to the cluster of a work with the label.
func (r *Reconciler) ofLabel(label string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		if o.GetLabels()[label] != r.Component.AddOnName() {
			return nil
		}
		return r.ofCluster(ctx, o.GetNamespace())
	}
}

func (r *Reconciler) ofCluster(ctx context.Context, name string) []reconcile.Request {
	configs, err := target.ReferringToName(r.Finder.Configs[r.Component], name)
	return requests(ctx, configs, err)
}

func (r *Reconciler) ofProfile(ctx context.Context, o client.Object) []reconcile.Request {
	return r.ofCluster(ctx, o.GetName())
}

func (r *Reconciler) ofBinding(ctx context.Context, o client.Object) []reconcile.Request {
	configs, err := target.ReferringToNamespace(r.Finder.Configs[r.Component], o.GetNamespace())
	return requests(ctx, configs, err)
}

func (r *Reconciler) ofRevision(_ context.Context, o client.Object) []reconcile.Request {
	rev, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil
	}
	component, name, ok := revision.ResourceOf(rev)
	if !ok || component != r.Component {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

func (r *Reconciler) all(context.Context) []reconcile.Request {
	var out []reconcile.Request
	for _, o := range r.Finder.Configs[r.Component].List() {
		if object, err := apimeta.Accessor(o); err == nil {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}})
		}
	}
	return out
}

func requests(ctx context.Context, configs []*unstructured.Unstructured, err error) []reconcile.Request {
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find who refers to a changed object")
	}
	var out []reconcile.Request
	for _, config := range configs {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(config)})
	}
	return out
}
