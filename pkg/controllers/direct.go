// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	controllersdirect "open-cluster-management.io/knative-addon/pkg/controllers/direct"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// Direct is what an administrator decides about clusters without a work agent.
type Direct struct {
	// LocalInstalls installs resources without a reference on the hub, if they are in the namespace that they install into.
	LocalInstalls bool
	// Providers is the file of access providers; empty means that no ClusterProfile is connected to.
	Providers string
	// Access says what connections may be like.
	Access access.Options
	// WatchedClusters is how many clusters of ClusterProfiles are watched; the others are polled.
	WatchedClusters int
	// PollInterval is how often a cluster is polled that is not watched.
	PollInterval time.Duration
}

// withoutAgent is what the controllers of both components share.
type withoutAgent struct {
	hub         *controllersdirect.Hub
	clusters    *controllersdirect.Everywhere
	bundles     *addon.RenderedBundles
	reconcilers map[api.Component]*controllersdirect.Reconciler
	// changed brings an event for each component when the file of access providers has changed. It has room for one: more
	// would tell nothing new.
	changed map[api.Component]chan event.GenericEvent
}

func newWithoutAgent(s *setup, options Options) (*withoutAgent, error) {
	w := &withoutAgent{
		bundles:     &addon.RenderedBundles{Source: s.bundles.Source, Renderer: s.bundles.Renderer, Options: options.RenderDirect},
		reconcilers: map[api.Component]*controllersdirect.Reconciler{}, changed: map[api.Component]chan event.GenericEvent{},
	}
	for _, c := range api.Components() {
		w.changed[c] = make(chan event.GenericEvent, 1)
	}
	file := access.OpenFile(options.Direct.Providers, access.FileOptions{Changed: func(state access.FileState) {
		tellProviders(s.mgr.GetLogger(), state)
		w.providersChanged()
	}})
	tellProviders(s.mgr.GetLogger(), file.State())
	s.finder.Direct = func() resolve.DirectDelivery { return directDelivery(file.State()) }
	config := s.mgr.GetConfig()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	hub := &controllersdirect.Hub{Kube: kube}
	w.hub = hub
	seeing := direct.Options{PollInterval: options.Direct.PollInterval, Log: s.mgr.GetLogger().WithName("direct")}
	local, err := w.local(hub, config, seeing)
	if err != nil {
		return nil, err
	}
	local.Conflict = func() bool { _, conflict := s.finder.Conflict(); return conflict }
	local.Enabled = options.Direct.LocalInstalls
	seeing.Limit = direct.NewWatchLimit(options.Direct.WatchedClusters)
	remote := &controllersdirect.Remote{
		Finder: s.finder, Sessions: access.NewSessions(file, options.Direct.Access), Hub: hub, Clock: clock.RealClock{},
		Wake: w.wake, Seeing: seeing,
		Again: func(c api.Component, name types.NamespacedName) { w.reconcilers[c].Again(name) },
	}
	w.clusters = &controllersdirect.Everywhere{Local: local, Remote: remote}
	return w, errors.Join(s.mgr.Add(file), s.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		local.Cluster.Close()
		remote.Close()
		return nil
	})))
}

// local is the hub as a cluster to install on. It is one of those that are watched, whatever the limit.
func (w *withoutAgent) local(hub *controllersdirect.Hub, config *rest.Config, seeing direct.Options) (*controllersdirect.Local, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the hub: %w", err)
	}
	l := &controllersdirect.Local{Hub: hub}
	seeing.Changed = func(c api.Component) { w.wake(c, l.Cluster) }
	l.Cluster, err = direct.Connect(config, httpClient, seeing)
	return l, err
}

// wake has everybody looked at who has something of the component on the cluster; an empty component is any.
func (w *withoutAgent) wake(component api.Component, cluster *direct.Cluster) {
	for c, r := range w.reconcilers {
		if component == "" || component == c {
			r.Wake(cluster)
		}
	}
}

// tellProviders logs which access providers count. A file that is bad takes nothing away, so that no condition tells of it
// while the providers from before are enough.
func tellProviders(log logr.Logger, state access.FileState) {
	switch {
	case !state.Configured:
	case state.Err != nil:
		log.Error(state.Err, "the access providers stay as they were", "providers", state.Names())
	default:
		log.Info("access providers", "providers", state.Names())
	}
}

func directDelivery(state access.FileState) resolve.DirectDelivery {
	out := resolve.DirectDelivery{Configured: state.Configured, Providers: state.Names()}
	if state.Err != nil {
		out.Problem = state.Err.Error()
	}
	return out
}

func (w *withoutAgent) providersChanged() {
	for _, changed := range w.changed {
		select {
		case changed <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{}}:
		default: // an event that waits already tells of it too
		}
	}
}

func (s *setup) direct(c api.Component) error {
	w, hub, clusters := s.withoutAgent, s.hub, s.hub.clusters.Cluster()
	r := &controllersdirect.Reconciler{
		Component: c, Configs: hub.Configs()[c], Bundles: w.bundles, Clusters: w.clusters,
		Client: hub.ConfigClient, Events: s.events(), Clock: clock.RealClock{},
	}
	w.reconcilers[c] = r
	return r.SetupWithManager(s.mgr, controllersdirect.Informers{
		Configs: hub.configInformers()[c], Profiles: hub.profiles.informer(), Clusters: clusters.V1().ManagedClusters().Informer(),
		Bindings: clusters.V1beta2().ManagedClusterSetBindings().Informer(), Sets: clusters.V1beta2().ManagedClusterSets().Informer(),
		Operators: hub.operator.informer(), Providers: w.changed[c],
	})
}
