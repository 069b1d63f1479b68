// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/configuration"
	"open-cluster-management.io/knative-addon/pkg/controllers/fleet"
	"open-cluster-management.io/knative-addon/pkg/controllers/knative"
	"open-cluster-management.io/knative-addon/pkg/controllers/managedclusteraddon"
	"open-cluster-management.io/knative-addon/pkg/controllers/removalguard"
	"open-cluster-management.io/knative-addon/pkg/controllers/rendering"
	"open-cluster-management.io/knative-addon/pkg/controllers/scores"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/metrics"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Options are the decisions of an administrator.
type Options struct {
	// Render configures the rendering for clusters with a work agent.
	Render render.Options
	// References decides which namespaces may refer to which ClusterProfiles.
	References resolve.ReferencePolicy
	// Trust names the namespaces whose resources may escalate.
	Trust trust.Policy
	// Executor is the ServiceAccount of managed clusters with which the work agent applies the works; nil means the work agent's
	// own ServiceAccount.
	Executor *workv1.ManifestWorkExecutor
	// MaxRemoval is the number, or the percentage, of the clusters of a component that may lose the component within an hour
	// without confirmation.
	MaxRemoval intstr.IntOrString
	// RenderingRollout is the strategy by which clusters get a new rendering that no Placement and no KnativeFleet selects.
	RenderingRollout clusterv1alpha1.RolloutStrategy
	// Direct configures the delivery to clusters without a work agent, RenderDirect the rendering for these clusters.
	Direct       Direct
	RenderDirect render.Options
	// ClusterMetrics adds metrics with the names of clusters, for at most metrics.MaxClusters clusters.
	ClusterMetrics bool
}

// setup holds the common parts of the controllers during setup.
type setup struct {
	mgr     ctrl.Manager
	hub     *hub.Hub
	bundles *addon.RenderedBundles
	finder  *target.Finder
	// executor is the executor of works that name none; nil means the work agent's own permissions.
	executor *workv1.ManifestWorkExecutor
	// withoutAgent serves the clusters to which the manager writes directly.
	withoutAgent *withoutAgent
	metrics      *metrics.Metrics
	// otherManager reports whether another manager serves a resource; nil means that no other manager serves any.
	otherManager func(*unstructured.Unstructured) bool
	// trigger makes addon-framework reconcile an add-on.
	trigger func(cluster, addOn string)
}

// SetupWithManager makes the manager, once the manager leads, run addon-framework with the two add-ons and all controllers.
func SetupWithManager(mgr ctrl.Manager, h *hub.Hub, renderer *render.Renderer, options Options) error {
	s := &setup{
		mgr: mgr, hub: h, executor: options.Executor,
		bundles: &addon.RenderedBundles{
			ConfigBundles: addon.NewConfigBundles(h.NewSource(), renderer, options.Render),
			Clusters:      h.ManagedClusters().Lister(),
			Deployments:   addon.NewDeployments(h.AddOnDeploymentConfigs().Lister(), h.ControllerRevisions().Informer().GetIndexer()),
			Foundations:   h.Foundations().Lister(), Payloads: h.Payloads().Lister(),
		},
		finder: &target.Finder{
			Configs: h.ConfigIndexers(), Profiles: h.ClusterProfiles(), Clusters: h.ManagedClusters().Lister(),
			Bindings: h.ManagedClusterSetBindings().Lister(), Sets: h.ManagedClusterSets().Lister(),
			Policy: options.References, Trust: options.Trust, Operator: h.KnativeOperator().Present,
		},
	}
	if options.Direct.LocalInstalls {
		s.otherManager = knative.IsLocal
	}
	s.metrics = metrics.New(metrics.Sources{
		Configs: h.ConfigIndexers(), AddOns: h.ManagedClusterAddOns().Informer().GetIndexer(), Foundations: h.Foundations().Informer().GetIndexer(),
		Deployments: h.AddOnDeploymentConfigs().Informer().GetIndexer(), Fleets: h.KnativeFleets().Informer().GetIndexer(),
		Versions: renderer, PerCluster: options.ClusterMetrics,
		CountConnections: func() map[string]int { return s.withoutAgent.sessions.CountConnections() },
	})
	options.Direct.Access.PluginResult = s.metrics.RecordCredential
	var err error
	if s.withoutAgent, err = newWithoutAgent(s, options); err != nil {
		return err
	}
	if err := s.addFramework(); err != nil {
		return err
	}
	for _, c := range api.Components() {
		if err := errors.Join(addConfiguration(mgr, h.Configuration(c), renderer, s.otherManager), s.addKnative(c)); err != nil {
			return err
		}
	}
	return errors.Join(s.addManagedClusterAddOn(), s.addRemovalGuard(options.MaxRemoval), s.addScores(renderer), s.addFleets(options.RenderingRollout),
		configuration.NewDeploymentConfigs(h).SetupWithManager(mgr, h), s.metrics.Register(ctrlmetrics.Registry))
}

// addKnative adds the controller of KnativeServings or KnativeEventings.
func (s *setup) addKnative(c api.Component) error {
	hub := s.hub
	if err := hub.Configs(c).Informer().AddIndexers(target.Indexers()); err != nil {
		return fmt.Errorf("cannot index %ss: %w", c.Kind(), err)
	}
	r := &knative.Reconciler{
		Component: c, Configs: hub.Configs(c).Lister(), Finder: s.finder, OtherManager: s.otherManager,
		Deliveries: []knative.Delivery{s.newDirectDelivery(c), s.newManifestWorkDelivery(c)},
		Fleet: &knative.FleetStatus{
			Component: c, AddOnsByConfig: hub.ManagedClusterAddOns().Informer().GetIndexer(), Foundations: hub.Foundations().Lister(),
			Payloads: hub.Payloads().Lister(),
			Granter:  &revision.Granter{Definitions: hub.ClusterManagementAddOns().Lister(), Decisions: hub.PlacementDecisions().Lister()},
			Versions: s.bundles, Clock: clock.RealClock{},
		},
		Status: &knative.StatusWriter{Component: c, Client: hub.Clients.Configs, Events: s.eventRecorder(), Clock: clock.RealClock{}, ReadyAfter: s.metrics.RecordReady},
	}
	return r.SetupWithManager(s.mgr, hub, s.withoutAgent.requests[c], s.withoutAgent.changed[c])
}

func (s *setup) newManifestWorkDelivery(c api.Component) *knative.ManifestWork {
	hub := s.hub
	return &knative.ManifestWork{
		Component: c, Finder: s.finder, Bundles: s.bundles, Pauses: s.bundles.Source,
		AddOns: hub.ManagedClusterAddOns().Lister(), Definitions: hub.ClusterManagementAddOns().Lister(),
		Foundations: hub.Foundations().Lister(), Payloads: hub.Payloads().Lister(),
		Revisions: hub.ControllerRevisions().Informer().GetIndexer(), ConfigClient: hub.Clients.Configs, AddOnClient: hub.Clients.AddOns,
		Events: s.eventRecorder(), Clock: clock.RealClock{},
	}
}

func (s *setup) addManagedClusterAddOn() error {
	hub, addOns, definitions := s.hub, s.hub.ManagedClusterAddOns(), s.hub.ClusterManagementAddOns()
	foundations, payloads := hub.Foundations(), hub.Payloads()
	r := &managedclusteraddon.Reconciler{
		AddOns: addOns.Lister(), Clusters: hub.ManagedClusters().Lister(), Foundations: foundations.Lister(), Payloads: payloads.Lister(),
		AddOnClient: hub.Clients.AddOns, WorkClient: hub.Clients.Works,
		Bundles: s.bundles, Targets: s.finder, Pauses: s.bundles.Source, Permissions: s.finder, Executor: s.executor, Events: s.eventRecorder(), Trigger: s.trigger,
		Revisions: hub.ControllerRevisions().Informer().GetIndexer(), RevisionClient: hub.Clients.Kube,
		Granter: &revision.Granter{Definitions: definitions.Lister(), Decisions: hub.PlacementDecisions().Lister()},
		Hub:     s.withoutAgent.hub.UID, Clock: clock.RealClock{}, AddOnsByConfig: addOns.Informer().GetIndexer(), Configs: hub.ConfigIndexers(),
	}
	drift := &managedclusteraddon.DriftReconciler{
		AddOns: addOns.Lister(), Foundations: foundations.Lister(), Payloads: payloads.Lister(), WorkClient: hub.Clients.Works, Bundles: s.bundles,
		Events: r.Events, Clock: r.Clock, Backoff: managedclusteraddon.NewRepairBackoff(),
	}
	return errors.Join(drift.SetupWithManager(s.mgr, hub), r.SetupWithManager(s.mgr, hub))
}

func (s *setup) addRemovalGuard(maxRemoval intstr.IntOrString) error {
	hub, addOns, definitions := s.hub, s.hub.ManagedClusterAddOns(), s.hub.ClusterManagementAddOns()
	foundations, payloads := hub.Foundations(), hub.Payloads()
	held, err := removalguard.NewGauge(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	r := &removalguard.Reconciler{
		AddOns: addOns.Informer().GetIndexer(), Foundations: foundations.Informer().GetIndexer(),
		Definitions: definitions.Lister(), Clusters: hub.ManagedClusters().Lister(),
		Placements: hub.Placements().Lister(), Decisions: hub.PlacementDecisions().Lister(),
		Configs: hub.ConfigListers(), Payloads: payloads.Lister(), Revisions: hub.ControllerRevisions().Informer().GetIndexer(),
		AddOnClient: hub.Clients.AddOns, WorkClient: hub.Clients.Works, RevisionClient: hub.Clients.Kube, Events: s.eventRecorder(), Clock: clock.RealClock{},
		MaxRemoval: maxRemoval, Held: held, Permissions: s.finder,
	}
	return r.SetupWithManager(s.mgr, hub)
}

func (s *setup) addScores(renderer *render.Renderer) error {
	hub := s.hub
	r := &scores.Reconciler{
		AddOns: hub.ManagedClusterAddOns().Lister(), Clusters: hub.ManagedClusters().Lister(),
		Foundations: hub.Foundations().Lister(), Payloads: hub.Payloads().Lister(), Scores: hub.AddOnPlacementScores().Lister(),
		Client: hub.Clients.Clusters, Versions: renderer, Clock: clock.RealClock{},
	}
	return r.SetupWithManager(s.mgr, hub)
}

// addFleets adds the controller of KnativeFleets, and the controller of renderings, which reads the selections of KnativeFleets.
func (s *setup) addFleets(renderingRollout clusterv1alpha1.RolloutStrategy) error {
	hub := s.hub
	fleets := &fleet.Reconciler{
		Fleets: hub.KnativeFleets(), Profiles: hub.ClusterProfiles(), Placements: hub.Placements().Lister(),
		Decisions: hub.PlacementDecisions().Lister(), KeyDecisions: hub.InventoryDecisions(), Configs: hub.ConfigListers(),
		Clusters: hub.ManagedClusters().Lister(), MaySelect: removalguard.MaySelect,
		Client: hub.Clients.Configs, RemovalLimit: removalguard.Limit, History: configuration.NewFleets(hub), Completions: map[api.Component]fleet.Completions{}, Events: s.eventRecorder(), Clock: clock.RealClock{},
	}
	renderings := &rendering.Reconciler{
		AddOns: hub.ManagedClusterAddOns().Lister(), Definitions: hub.ClusterManagementAddOns().Lister(), Clusters: hub.ManagedClusters().Lister(),
		Placements: hub.Placements().Lister(), Decisions: hub.PlacementDecisions().Lister(),
		Foundations: hub.Foundations().Lister(), Payloads: hub.Payloads().Lister(),
		Configs: hub.ConfigListers(), Bundles: s.bundles, Targets: s.finder, Pauses: s.bundles.Source, Selection: fleets.Selection,
		Direct: map[api.Component]rendering.Reports{}, Default: renderingRollout, WorkClient: hub.Clients.Works, ConfigClient: hub.Clients.Configs,
		Events: s.eventRecorder(), Clock: clock.RealClock{},
	}
	for _, c := range api.Components() {
		fleets.Completions[c] = configuration.NewCompletions(hub.Configuration(c))
		renderings.Direct[c] = s.withoutAgent.renderings[c]
	}
	return errors.Join(fleets.SetupWithManager(s.mgr, hub), renderings.SetupWithManager(s.mgr, hub))
}

func (s *setup) eventRecorder() events.EventRecorder { return s.mgr.GetEventRecorder(eventController) }

// NewScheme returns a scheme with the kinds of all objects that Events regard: a recorder drops Events on other kinds.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), addonv1beta1.Install(scheme), workv1.Install(scheme)); err != nil {
		return nil, fmt.Errorf("cannot register kinds: %w", err)
	}
	return scheme, nil
}

// eventController is the reporting controller of all Events.
const eventController = "knative-addon"

// addConfiguration adds the controller that keeps the history of the resources of a Hub or of a LocalHub. otherManager reports
// whether another manager serves a resource; nil means that no other manager serves any.
func addConfiguration(mgr ctrl.Manager, c hub.Configuration, renderer *render.Renderer, otherManager func(*unstructured.Unstructured) bool) error {
	r := &configuration.Reconciler{
		Recorder: configuration.Recorder{
			Kind: c.Component, Configs: c.Configs.Lister(), Revisions: c.Revisions.Informer().GetIndexer(), References: c.References,
			RevisionClient: c.Clients.Kube, Excludes: otherManager,
		},
		Component: c.Component, Versions: renderer, ConfigClient: c.Clients.Configs, Events: mgr.GetEventRecorder(eventController),
		Operator: c.Operator.Present,
	}
	return r.SetupWithManager(mgr, c)
}
