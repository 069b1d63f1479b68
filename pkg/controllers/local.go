// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/controllers/configuration"
	"open-cluster-management.io/knative-addon/pkg/controllers/knative"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// LocalOptions are an administrator's decisions about installations on the hub.
type LocalOptions struct {
	Render render.Options
	// Trust names the namespaces whose resources may escalate.
	Trust trust.Policy
	// PollInterval is the interval at which the hub is polled where the hub refuses to be watched.
	PollInterval time.Duration
}

// localSetup holds the common parts of the controllers of a LocalHub during setup.
type localSetup struct {
	mgr      ctrl.Manager
	hub      *hub.LocalHub
	renderer *render.Renderer
	options  LocalOptions
	cluster  *knative.Local
	requests knative.RequestSources
}

// SetupLocalWithManager makes the manager, once the manager leads, install Knative on the hub itself. This manager alone writes
// the resources of a LocalHub: the manager of SetupWithManager does not write these resources.
func SetupLocalWithManager(mgr ctrl.Manager, h *hub.LocalHub, renderer *render.Renderer, options LocalOptions) error {
	s := &localSetup{mgr: mgr, hub: h, renderer: renderer, options: options, requests: knative.NewRequestSources()}
	if err := s.connectHub(mgr.GetConfig()); err != nil {
		return err
	}
	for _, c := range api.Components() {
		if err := errors.Join(addConfiguration(mgr, h.Configuration(c), renderer, isOfOtherManager), s.addKnative(c)); err != nil {
			return err
		}
	}
	return nil
}

// connectHub makes the hub a cluster to install on.
func (s *localSetup) connectHub(config *rest.Config) error {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("cannot connect to the hub: %w", err)
	}
	s.cluster = &knative.Local{Hub: &knative.HubIdentity{Kube: s.hub.Clients.Kube}, Finder: s.newFinder(), Requests: s.requests}
	err = s.cluster.Connect(config, httpClient, clustercache.Options{
		PollInterval: s.options.PollInterval, Log: s.mgr.GetLogger().WithName("direct"),
	})
	if err != nil {
		return err
	}
	return s.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		s.cluster.Close()
		return nil
	}))
}

// newFinder returns a Finder without caches of clusters: no resource of this manager refers to a cluster.
func (s *localSetup) newFinder() *target.Finder {
	return &target.Finder{Operator: s.hub.KnativeOperator().Present, Trust: s.options.Trust}
}

func (s *localSetup) eventRecorder() events.EventRecorder {
	return s.mgr.GetEventRecorder(eventController)
}

func (s *localSetup) addKnative(c api.Component) error {
	hub := s.hub.Configuration(c)
	if err := hub.Configs.Informer().AddIndexers(target.Indexers()); err != nil {
		return fmt.Errorf("cannot index %ss: %w", c.Kind(), err)
	}
	delivery := &knative.Direct{
		Component: c, Clusters: s.cluster, Trust: s.options.Trust, Completions: configuration.NewCompletions(hub),
		Bundles:      addon.NewConfigBundles(hub.NewSource(), s.renderer, s.options.Render),
		ConfigClient: hub.Clients.Configs, Events: s.eventRecorder(), Clock: clock.RealClock{},
	}
	r := &knative.Reconciler{
		Component: c, Configs: hub.Configs.Lister(), Finder: s.newFinder(), Deliveries: []knative.Delivery{delivery},
		OtherManager: isOfOtherManager,
		Status:       &knative.StatusWriter{Component: c, Client: hub.Clients.Configs, Events: s.eventRecorder(), Clock: clock.RealClock{}},
	}
	return r.SetupLocalWithManager(s.mgr, hub, s.requests[c])
}

// isOfOtherManager reports whether the resource is for another cluster than the hub. The cache holds such a resource when the
// resource is in the usual namespace of its component.
func isOfOtherManager(config *unstructured.Unstructured) bool { return !knative.IsLocal(config) }
