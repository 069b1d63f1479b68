// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/foundation"
	"open-cluster-management.io/knative-addon/pkg/controllers/guard"
	"open-cluster-management.io/knative-addon/pkg/controllers/install"
	"open-cluster-management.io/knative-addon/pkg/controllers/pin"
	"open-cluster-management.io/knative-addon/pkg/controllers/repair"
	"open-cluster-management.io/knative-addon/pkg/controllers/revisions"
	"open-cluster-management.io/knative-addon/pkg/controllers/rollback"
	"open-cluster-management.io/knative-addon/pkg/controllers/scores"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Options are what an administrator decides.
type Options struct {
	// Render are those of pull.
	Render render.Options
	// References says which ClusterProfiles may be referred to from where.
	References resolve.ReferencePolicy
	// MaxRemoval is how many clusters of a component may lose it within an hour without confirmation.
	MaxRemoval intstr.IntOrString
	// Direct is about clusters without a work agent, RenderDirect how what they get is rendered.
	Direct       Direct
	RenderDirect render.Options
}

// setup holds what the controllers share while they are made.
type setup struct {
	mgr     ctrl.Manager
	hub     *Hub
	bundles *addon.RenderedBundles
	finder  *target.Finder
	// withoutAgent serves clusters that the manager writes to itself.
	withoutAgent *withoutAgent
	// trigger makes addon-framework look at an add-on again.
	trigger func(cluster, addOn string)
}

// SetupWithManager makes the manager, once it leads, run addon-framework with our add-ons and all of our controllers.
func SetupWithManager(mgr ctrl.Manager, hub *Hub, renderer *render.Renderer, options Options) error {
	clusters := hub.clusters.Cluster()
	s := &setup{
		mgr: mgr, hub: hub,
		bundles: &addon.RenderedBundles{
			Source: revision.NewSource(hub.Configs(), hub.revisionInformer().GetIndexer()), Renderer: renderer, Options: options.Render,
			Clusters: clusters.V1().ManagedClusters().Lister(), Deployments: addon.NewDeployments(hub.deploymentConfigs().Lister()),
			Foundations: hub.foundations.Work().V1().ManifestWorks().Lister(), Payloads: hub.payloads.Work().V1().ManifestWorks().Lister(),
		},
		finder: &target.Finder{
			Configs: hub.configIndexers(), Profiles: hub.profiles, Clusters: clusters.V1().ManagedClusters().Lister(),
			Bindings: clusters.V1beta2().ManagedClusterSetBindings().Lister(), Sets: clusters.V1beta2().ManagedClusterSets().Lister(),
			Policy: options.References, Operator: hub.operator.Present,
		},
	}
	var err error
	if s.withoutAgent, err = newWithoutAgent(s, options); err != nil {
		return err
	}
	if err := s.framework(); err != nil {
		return err
	}
	for _, c := range api.Components() {
		if err := errors.Join(s.revisions(c), s.pin(c, renderer), s.install(c), s.direct(c)); err != nil {
			return err
		}
	}
	return errors.Join(s.repair(), s.foundation(), s.guard(options.MaxRemoval), s.scores(renderer))
}

// revisions records what a rollout may refer to, and goes back to it.
func (s *setup) revisions(c api.Component) error {
	hub, informer := s.hub, s.hub.revisionInformer()
	recorder := &revisions.Reconciler{
		Component: c, Configs: hub.Configs()[c], Revisions: informer.GetIndexer(), References: hub.references(), Client: hub.RevisionClient,
	}
	back := &rollback.Reconciler{
		Component: c, Configs: hub.Configs()[c], Revisions: informer.GetIndexer(), References: hub.references(), Client: hub.ConfigClient,
		Events: s.events(), Operator: hub.operator.Present,
	}
	return errors.Join(
		recorder.SetupWithManager(s.mgr, hub.configInformers()[c], informer),
		back.SetupWithManager(s.mgr, hub.configInformers()[c], informer),
	)
}

func (s *setup) pin(c api.Component, renderer *render.Renderer) error {
	r := &pin.Reconciler{
		Component: c, Lister: s.hub.Configs()[c], Client: s.hub.ConfigClient, Versions: renderer,
		Revisions: &revision.Pins{Component: c, Revisions: s.hub.revisionInformer().GetIndexer(), References: s.hub.references()},
		Operator:  s.hub.operator.Present,
	}
	return r.SetupWithManager(s.mgr, s.hub.configInformers()[c])
}

func (s *setup) install(c api.Component) error {
	hub, addOns, clusters := s.hub, s.hub.addOns.Addon().V1beta1(), s.hub.clusters.Cluster()
	foundations, payloads := hub.foundations.Work().V1().ManifestWorks(), hub.payloads.Work().V1().ManifestWorks()
	r := &install.Reconciler{
		Component: c, Finder: s.finder, Bundles: s.bundles, Pauses: s.bundles.Source,
		Configs: hub.Configs()[c], AddOns: addOns.ManagedClusterAddOns().Lister(), Definitions: addOns.ClusterManagementAddOns().Lister(),
		Foundations: foundations.Lister(), Payloads: payloads.Lister(),
		AddOnsByConfig: addOns.ManagedClusterAddOns().Informer().GetIndexer(),
		ConfigClient:   hub.ConfigClient, AddOnClient: hub.AddOnClient, Events: s.events(), Clock: clock.RealClock{},
		Elsewhere: s.withoutAgent.clusters.Serves,
	}
	return r.SetupWithManager(s.mgr, install.Informers{
		Configs: hub.configInformers()[c], AddOns: addOns.ManagedClusterAddOns().Informer(),
		Definitions: addOns.ClusterManagementAddOns().Informer(), Foundations: foundations.Informer(), Payloads: payloads.Informer(),
		Clusters: clusters.V1().ManagedClusters().Informer(), Profiles: hub.profiles.informer(),
		Bindings: clusters.V1beta2().ManagedClusterSetBindings().Informer(), Sets: clusters.V1beta2().ManagedClusterSets().Informer(),
		Operators: hub.operator.informer(), Revisions: hub.revisionInformer(), Deployments: hub.deploymentConfigs().Informer(),
	})
}

func (s *setup) repair() error {
	payloads := s.hub.payloads.Work().V1().ManifestWorks()
	r := &repair.Reconciler{
		AddOns: s.hub.addOns.Addon().V1beta1().ManagedClusterAddOns().Lister(), Payloads: payloads.Lister(), WorkClient: s.hub.WorkClient,
		Bundles: s.bundles, Events: s.events(), Clock: clock.RealClock{}, Pauses: repair.NewPauses(),
	}
	return r.SetupWithManager(s.mgr, payloads.Informer())
}

func (s *setup) foundation() error {
	hub, clusters := s.hub, s.hub.clusters.Cluster()
	addOns, foundations := hub.addOns.Addon().V1beta1().ManagedClusterAddOns(), hub.foundations.Work().V1().ManifestWorks()
	payloads := hub.payloads.Work().V1().ManifestWorks()
	r := &foundation.Reconciler{
		AddOns: addOns.Lister(), Clusters: clusters.V1().ManagedClusters().Lister(), Foundations: foundations.Lister(), Payloads: payloads.Lister(),
		AddOnClient: hub.AddOnClient, WorkClient: hub.WorkClient,
		Bundles: s.bundles, Targets: s.finder, Pauses: s.bundles.Source, Adoptions: s.bundles.Source, Events: s.events(), Trigger: s.trigger,
		Hub: s.withoutAgent.hub.UID, Clock: clock.RealClock{}, AddOnsByConfig: addOns.Informer().GetIndexer(), Configs: hub.configIndexers(),
	}
	return r.SetupWithManager(s.mgr, foundation.Informers{
		AddOns: addOns.Informer(), Clusters: clusters.V1().ManagedClusters().Informer(),
		Foundations: foundations.Informer(), Payloads: payloads.Informer(), Configs: hub.configInformers(),
		Profiles: hub.profiles.informer(), Bindings: clusters.V1beta2().ManagedClusterSetBindings().Informer(),
		Sets: clusters.V1beta2().ManagedClusterSets().Informer(), Operators: hub.operator.informer(),
		Revisions: hub.revisionInformer(), Deployments: hub.deploymentConfigs().Informer(),
	})
}

func (s *setup) guard(maxRemoval intstr.IntOrString) error {
	hub, addOns, clusters := s.hub, s.hub.addOns.Addon().V1beta1(), s.hub.clusters.Cluster()
	foundations, payloads := hub.foundations.Work().V1().ManifestWorks(), hub.payloads.Work().V1().ManifestWorks()
	held, err := guard.NewGauge(metrics.Registry)
	if err != nil {
		return err
	}
	r := &guard.Reconciler{
		AddOns: addOns.ManagedClusterAddOns().Informer().GetIndexer(), Foundations: foundations.Informer().GetIndexer(),
		Definitions: addOns.ClusterManagementAddOns().Lister(), Clusters: clusters.V1().ManagedClusters().Lister(),
		Placements: clusters.V1beta1().Placements().Lister(), Decisions: clusters.V1beta1().PlacementDecisions().Lister(),
		Configs: hub.Configs(), Payloads: payloads.Lister(),
		AddOnClient: hub.AddOnClient, WorkClient: hub.WorkClient, Events: s.events(), Clock: clock.RealClock{},
		MaxRemoval: maxRemoval, Held: held,
	}
	return r.SetupWithManager(s.mgr, guard.Informers{
		AddOns: addOns.ManagedClusterAddOns().Informer(), Definitions: addOns.ClusterManagementAddOns().Informer(),
		Clusters:   clusters.V1().ManagedClusters().Informer(),
		Placements: clusters.V1beta1().Placements().Informer(), Decisions: clusters.V1beta1().PlacementDecisions().Informer(),
		Foundations: foundations.Informer(), Payloads: payloads.Informer(), Configs: hub.configInformers(),
	})
}

func (s *setup) scores(renderer *render.Renderer) error {
	hub, written := s.hub, s.hub.scores.Cluster().V1alpha1().AddOnPlacementScores()
	addOns, clusters := hub.addOns.Addon().V1beta1().ManagedClusterAddOns(), hub.clusters.Cluster().V1().ManagedClusters()
	foundations, payloads := hub.foundations.Work().V1().ManifestWorks(), hub.payloads.Work().V1().ManifestWorks()
	r := &scores.Reconciler{
		AddOns: addOns.Lister(), Clusters: clusters.Lister(), Foundations: foundations.Lister(), Payloads: payloads.Lister(),
		Scores: written.Lister(), Client: hub.clusterClient, Versions: renderer, Clock: clock.RealClock{},
	}
	return r.SetupWithManager(s.mgr, scores.Informers{
		AddOns: addOns.Informer(), Clusters: clusters.Informer(), Foundations: foundations.Informer(), Payloads: payloads.Informer(),
		Scores: written.Informer(),
	})
}

func (s *setup) events() events.EventRecorder { return s.mgr.GetEventRecorder("knative-addon") }
