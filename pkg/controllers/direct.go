// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/controllers/configuration"
	"open-cluster-management.io/knative-addon/pkg/controllers/knative"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Direct is the decisions of an administrator about clusters without a work agent.
type Direct struct {
	// LocalInstalls leaves resources without a reference to the manager of SetupLocalWithManager, if they are in the usual
	// namespace of their component.
	LocalInstalls bool
	// Providers is the path of the file of access providers; empty means that the manager connects to no ClusterProfile.
	Providers string
	// Access limits connections to clusters.
	Access access.Options
	// WatchedClusters is the number of clusters of ClusterProfiles on which all objects are watched; on further clusters only workloads
	// are watched, and the other objects polled.
	WatchedClusters int
	// PollInterval is the shortest interval at which objects are polled that are not watched.
	PollInterval time.Duration
}

// withoutAgent holds the common parts of direct deliveries of both components.
type withoutAgent struct {
	hub      *knative.HubIdentity
	clusters *knative.Remote
	sessions *access.Sessions
	bundles  *addon.ConfigBundles
	requests knative.RequestSources
	// renderings has the reports of the passes over the resources of each component.
	renderings map[api.Component]*knative.Renderings
	// changed sends an event to the controller of each component when the file of access providers has changed. A channel has
	// room for one event, which stands for all changes so far.
	changed map[api.Component]chan event.GenericEvent
}

func newWithoutAgent(s *setup, options Options) (*withoutAgent, error) {
	w := &withoutAgent{
		bundles:  addon.NewConfigBundles(s.bundles.Source, s.bundles.Renderer, options.RenderDirect),
		requests: knative.NewRequestSources(), changed: map[api.Component]chan event.GenericEvent{}, renderings: map[api.Component]*knative.Renderings{},
	}
	for _, c := range api.Components() {
		w.renderings[c] = &knative.Renderings{}
		w.changed[c] = make(chan event.GenericEvent, 1)
	}
	file := access.OpenFile(options.Direct.Providers, access.FileOptions{Changed: func(state access.FileState) {
		logProviders(s.mgr.GetLogger(), state)
		w.notifyProviderChange()
	}})
	logProviders(s.mgr.GetLogger(), file.State())
	s.finder.Direct = func() resolve.DirectDelivery {
		return describeDirectDelivery(file.State(), options.Direct.Access.Inventories)
	}
	hub := &knative.HubIdentity{Kube: s.hub.Clients.Kube}
	w.hub = hub
	watchOptions := clustercache.Options{PollInterval: options.Direct.PollInterval, Log: s.mgr.GetLogger().WithName("direct")}
	watchOptions.Limit, watchOptions.Lists = clustercache.NewWatchLimit(options.Direct.WatchedClusters), clustercache.NewListLimit()
	w.sessions = access.NewSessions(file, options.Direct.Access)
	w.clusters = &knative.Remote{
		Finder: s.finder, Sessions: w.sessions, Hub: hub, Clock: clock.RealClock{},
		Requests: w.requests, WatchOptions: watchOptions,
	}
	return w, errors.Join(s.mgr.Add(file), s.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		w.clusters.Close()
		return nil
	})))
}

// logProviders logs the access providers in use. A bad file changes no provider, so that no condition reports a bad file while
// the earlier providers are enough.
func logProviders(log logr.Logger, state access.FileState) {
	switch {
	case !state.Configured:
	case state.Err != nil:
		log.Error(state.Err, "the access providers stay as they were", "providers", state.Names())
	default:
		log.Info("access providers", "providers", state.Names())
	}
}

func describeDirectDelivery(state access.FileState, inventories trust.Inventories) resolve.DirectDelivery {
	out := resolve.DirectDelivery{Configured: state.Configured, Providers: state.Names(), Inventories: inventories}
	if state.Err != nil {
		out.Problem = state.Err.Error()
	}
	return out
}

func (w *withoutAgent) notifyProviderChange() {
	for _, changed := range w.changed {
		select {
		case changed <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{}}:
		default: // the waiting event stands for this change too
		}
	}
}

func (s *setup) newDirectDelivery(c api.Component) *knative.Direct {
	w := s.withoutAgent
	return &knative.Direct{
		Component: c, Bundles: w.bundles, Clusters: w.clusters, Trust: s.finder.Trust, Renderings: w.renderings[c], Completions: configuration.NewCompletions(s.hub.Configuration(c)),
		ConfigClient: s.hub.Clients.Configs, Events: s.eventRecorder(), Clock: clock.RealClock{},
	}
}
