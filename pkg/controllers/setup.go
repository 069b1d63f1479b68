// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"open-cluster-management.io/addon-framework/pkg/addonmanager"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/foundation"
	"open-cluster-management.io/knative-addon/pkg/controllers/pin"
	"open-cluster-management.io/knative-addon/pkg/controllers/repair"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// SetupWithManager makes the manager, once it leads, run addon-framework with our add-ons and all of our controllers.
// options are those of pull.
func SetupWithManager(mgr ctrl.Manager, hub *Hub, renderer *render.Renderer, options render.Options) error {
	framework, err := addonmanager.New(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("cannot create the add-on manager: %w", err)
	}
	foundations := hub.foundations.Work().V1().ManifestWorks()
	bundles := &addon.RenderedBundles{
		Source: revision.NewSource(hub.Configs()), Renderer: renderer, Options: options, Foundations: foundations.Lister(),
	}
	for _, c := range api.Components() {
		if err := framework.AddAgent(addon.New(c, bundles, foundations.Lister())); err != nil {
			return fmt.Errorf("cannot register add-on %q: %w", c.AddOnName(), err)
		}
	}
	// The framework has its queues only after it has started, and then looks at every add-on: nothing is lost when what
	// is triggered before goes nowhere.
	var started atomic.Bool
	trigger := func(cluster, addOn string) {
		if started.Load() {
			framework.Trigger(cluster, addOn)
		}
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if err := framework.StartWithInformers(ctx, hub.WorkClient, hub.payloads.Work().V1().ManifestWorks(),
			hub.kube, hub.addOns, hub.clusters, hub.configs); err != nil {
			return fmt.Errorf("cannot start the add-on manager: %w", err)
		}
		started.Store(true)
		if err := hub.Start(ctx); err != nil { // what the framework has asked for besides
			return err
		}
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		return fmt.Errorf("cannot add the add-on manager: %w", err)
	}
	for _, c := range api.Components() {
		r := &pin.Reconciler{Component: c, Lister: hub.Configs()[c], Client: hub.ConfigClient, Versions: renderer}
		if err := r.SetupWithManager(mgr, hub.configInformers()[c]); err != nil {
			return err
		}
	}
	addOns, clusters := hub.addOns.Addon().V1beta1().ManagedClusterAddOns(), hub.clusters.Cluster().V1().ManagedClusters()
	payloads := hub.payloads.Work().V1().ManifestWorks()
	r := &foundation.Reconciler{
		AddOns: addOns.Lister(), Clusters: clusters.Lister(), Foundations: foundations.Lister(), Payloads: payloads.Lister(),
		AddOnClient: hub.AddOnClient, WorkClient: hub.WorkClient,
		Bundles: bundles, Events: mgr.GetEventRecorder("knative-addon"), Trigger: trigger,
		Clock: clock.RealClock{},
	}
	repairs := &repair.Reconciler{
		AddOns: addOns.Lister(), Payloads: payloads.Lister(), WorkClient: hub.WorkClient,
		Bundles: bundles, Events: mgr.GetEventRecorder("knative-addon"), Clock: clock.RealClock{}, Pauses: repair.NewPauses(),
	}
	if err := repairs.SetupWithManager(mgr, payloads.Informer()); err != nil {
		return err
	}
	return r.SetupWithManager(mgr, foundation.Informers{
		AddOns: addOns.Informer(), Clusters: clusters.Informer(),
		Foundations: foundations.Informer(), Payloads: payloads.Informer(), Configs: hub.configInformers(),
	})
}
