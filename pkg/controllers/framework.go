// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/addonconfig"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/cmaconfig"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/cmamanagedby"
	"open-cluster-management.io/addon-framework/pkg/agent"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions/addon/v1beta1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

// deployWorkers is the number of add-ons for which addon-framework writes works at the same time: a worker mostly waits for the
// hub's API server. The framework's own manager has one worker, so that an edit reaches the clusters of a fleet one after the
// other. With many more workers, conflicts with OCM's writes to the status of new add-ons cost more time than the workers save.
const deployWorkers = 5

// addFramework makes the manager run addon-framework's controllers with the two add-ons. The controllers for certificates and for registration are
// left out: the add-ons have no agent that registers with the hub. The controller of the add-ons reports the registration, and the supported
// configurations, in the first of its own writes: the framework's controller would write the status of each new add-on twice.
func (s *setup) addFramework() error {
	agents := map[string]agent.AgentAddon{}
	configs := map[schema.GroupVersionResource]bool{}
	works := addon.Works{Foundations: s.hub.Foundations().Lister(), Payloads: s.hub.Payloads().Lister(), Executor: s.executor}
	for _, c := range api.Components() {
		a := addon.New(c, s.bundles, s.finder, s.bundles.Source, works)
		agents[c.AddOnName()] = a
		for _, resource := range a.GetAgentAddonOptions().SupportedConfigGVRs {
			configs[resource] = true
		}
	}
	deploy, others := s.newFrameworkControllers(agents, configs)
	s.trigger = func(cluster, addOn string) { deploy.SyncContext().Queue().Add(cluster + "/" + addOn) }
	err := s.addFrameworkController(deploy, deployWorkers)
	for _, c := range others {
		err = errors.Join(err, s.addFrameworkController(c, 1))
	}
	return err
}

func (s *setup) newFrameworkControllers(
	agents map[string]agent.AgentAddon, configs map[schema.GroupVersionResource]bool,
) (deploy factory.Controller, others []factory.Controller) {
	hub, addOnClient := s.hub, s.hub.Clients.AddOns
	clusters, addOns := hub.ManagedClusters(), hub.ManagedClusterAddOns()
	definitions, ours := hub.ClusterManagementAddOns(), utils.FilterByAddonName(agents)
	deploy = agentdeploy.NewAddonDeployController(
		newExecutingClient(hub.Clients.Works, s.executor), addOnClient, clusters, addOns, hub.Payloads(), agents, filterPending(agents))
	return deploy, []factory.Controller{
		cmamanagedby.NewCMAManagedByController(addOnClient, definitions, agents, ours),
		addonconfig.NewAddonConfigController(addOnClient, namingAddOns{addOns}, definitions, hub.ConfigFactory(), configs, ours),
		cmaconfig.NewCMAConfigController(addOnClient, definitions, hub.ConfigFactory(), configs, ours),
	}
}

// addFrameworkController makes the manager run a controller of addon-framework as a controller of controller-runtime. The framework's
// own loop retries after up to 1,000 seconds, which nothing configures, and ends the process when the caches need ten minutes.
func (s *setup) addFrameworkController(c factory.Controller, workers int) error {
	_, err := controller.NewTyped(c.Name(), s.mgr, controller.TypedOptions[string]{
		MaxConcurrentReconciles: workers, RateLimiter: reconciler.NewRateLimiter[string](),
		Reconciler: reconcile.TypedFunc[string](func(ctx context.Context, key string) (reconcile.Result, error) {
			namespace, name, err := cache.SplitMetaNamespaceKey(key)
			if err != nil {
				return reconcile.Result{}, reconcile.TerminalError(err)
			}
			sync := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, c.Sync(ctx, c.SyncContext(), key)
			})
			request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
			return reconciler.Wrap(sync, reconciler.OfAddOn).Reconcile(ctx, request)
		}),
		NewQueue: func(_ string, limiter workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
			return &frameworkQueue{TypedRateLimitingInterface: c.SyncContext().Queue(), limiter: limiter}
		},
	})
	if err != nil {
		return fmt.Errorf("cannot set up controller %q of addon-framework: %w", c.Name(), err)
	}
	return nil
}

// frameworkQueue is a queue of addon-framework with another rate limiter: the framework's own has no setting.
type frameworkQueue struct {
	workqueue.TypedRateLimitingInterface[string]

	limiter workqueue.TypedRateLimiter[string]
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *frameworkQueue) AddRateLimited(key string) { q.AddAfter(key, q.limiter.When(key)) }

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *frameworkQueue) Forget(key string) { q.limiter.Forget(key) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *frameworkQueue) NumRequeues(key string) int { return q.limiter.NumRequeues(key) }

// filterPending selects the add-ons for which addon-framework has works to write. The controller of the add-on triggers the framework
// when another add-on has works to write.
func filterPending(agents map[string]agent.AgentAddon) utils.ManagedClusterAddOnFilterFunc {
	return func(a *addonv1beta1.ManagedClusterAddOn) bool {
		ours, ok := agents[a.Name].(*addon.Agent)
		return !ok || ours.NeedsSync(context.Background(), a)
	}
}

// namingAddOns are the ManagedClusterAddOns with spec.configs. The controller of addon-framework that writes the hash and the generation of a
// configuration into add-ons gets only these add-ons: OCM's rollout gives the configuration to all others. There the controller would only write the
// generation, which OCM does not read, once for each cluster and edit, and each of these writes may conflict with OCM, which then goes through all
// clusters again.
type namingAddOns struct {
	addoninformers.ManagedClusterAddOnInformer
}

// Informer implements addoninformers.ManagedClusterAddOnInformer.
func (n namingAddOns) Informer() cache.SharedIndexInformer {
	return namingAddOnsInformer{n.ManagedClusterAddOnInformer.Informer()}
}

type namingAddOnsInformer struct{ cache.SharedIndexInformer }

// AddEventHandler implements cache.SharedIndexInformer.
func (n namingAddOnsInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return n.SharedIndexInformer.AddEventHandler(cache.FilteringResourceEventHandler{FilterFunc: namesConfigs, Handler: handler})
}

// GetIndexer implements cache.SharedIndexInformer.
func (n namingAddOnsInformer) GetIndexer() cache.Indexer {
	return namingAddOnsIndexer{n.SharedIndexInformer.GetIndexer()}
}

type namingAddOnsIndexer struct{ cache.Indexer }

// ByIndex implements cache.Indexer.
func (n namingAddOnsIndexer) ByIndex(index, value string) ([]any, error) {
	all, err := n.Indexer.ByIndex(index, value)
	return slices.DeleteFunc(slices.Clone(all), func(o any) bool { return !namesConfigs(o) }), err
}

// namesConfigs reports whether an object is a ManagedClusterAddOn with spec.configs.
func namesConfigs(object any) bool {
	a, ok := object.(*addonv1beta1.ManagedClusterAddOn)
	return ok && len(a.Spec.Configs) > 0
}
