// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/addonconfig"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/cmaconfig"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/cmamanagedby"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/registration"
	"open-cluster-management.io/addon-framework/pkg/agent"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
)

// deployWorkers is how many add-ons addon-framework writes works for at a time: what one waits for is the hub's API server.
// Its own manager writes for one, so that an edit comes to one cluster of a fleet after the other. With many more, conflicts
// with what OCM writes into the status of new add-ons cost more than they save.
const deployWorkers = 5

// framework runs addon-framework's controllers with our add-ons. Those for certificates are left out: nothing of ours
// registers with the hub.
func (s *setup) framework() error {
	agents := map[string]agent.AgentAddon{}
	configs := map[schema.GroupVersionResource]bool{}
	works := addon.Works{Foundations: s.bundles.Foundations, Payloads: s.bundles.Payloads}
	for _, c := range api.Components() {
		a := addon.New(c, s.bundles, s.finder, s.bundles.Source, works)
		agents[c.AddOnName()] = a
		for _, resource := range a.GetAgentAddonOptions().SupportedConfigGVRs {
			configs[resource] = true
		}
	}
	// The queues fill when the controllers are made, with every add-on: nothing is lost when what is triggered before goes
	// nowhere.
	var trigger atomic.Pointer[func(key string)]
	s.trigger = func(cluster, addOn string) {
		if add := trigger.Load(); add != nil {
			(*add)(cluster + "/" + addOn)
		}
	}
	hub := s.hub
	err := s.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		add := startFramework(ctx, hub, agents, configs)
		trigger.Store(&add)
		if err := hub.Start(ctx); err != nil { // what the framework has asked for besides
			return err
		}
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		return fmt.Errorf("cannot add the add-on manager: %w", err)
	}
	return nil
}

// startFramework runs the controllers until the context ends, and returns what has them look at an add-on again.
func startFramework(
	ctx context.Context, hub *Hub, agents map[string]agent.AgentAddon, configs map[schema.GroupVersionResource]bool,
) (trigger func(key string)) {
	clusters, addOns := hub.clusters.Cluster().V1().ManagedClusters(), hub.addOns.Addon().V1beta1().ManagedClusterAddOns()
	definitions, ours := hub.addOns.Addon().V1beta1().ClusterManagementAddOns(), utils.FilterByAddonName(agents)
	deploy := agentdeploy.NewAddonDeployController(
		hub.WorkClient, hub.AddOnClient, clusters, addOns, hub.payloads.Work().V1().ManifestWorks(), agents, due(ctx, agents))
	register := registration.NewAddonRegistrationController(hub.AddOnClient, clusters, addOns, agents, utils.AllowAllAddOns)
	go deploy.Run(ctx, deployWorkers)
	for _, c := range []factory.Controller{
		register,
		cmamanagedby.NewCMAManagedByController(hub.AddOnClient, definitions, agents, ours),
		addonconfig.NewAddonConfigController(hub.AddOnClient, namingConfigs{addOns}, definitions, hub.configs, configs, ours),
		cmaconfig.NewCMAConfigController(hub.AddOnClient, definitions, hub.configs, configs, ours),
	} {
		go c.Run(ctx, 1)
	}
	return func(key string) {
		deploy.SyncContext().Queue().Add(key)
		register.SyncContext().Queue().Add(key)
	}
}

// due passes over add-ons that addon-framework has nothing to do with. The foundation controller has it look again.
func due(ctx context.Context, agents map[string]agent.AgentAddon) utils.ManagedClusterAddOnFilterFunc {
	return func(a *addonv1beta1.ManagedClusterAddOn) bool {
		ours, ok := agents[a.Name].(*addon.Agent)
		return !ok || ours.Due(ctx, a)
	}
}
