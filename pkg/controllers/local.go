// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	controllersdirect "open-cluster-management.io/knative-addon/pkg/controllers/direct"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
)

// local is what installing on the hub needs.
type local struct {
	clusters *controllersdirect.Local
	bundles  *addon.RenderedBundles
	// changes has room for one event of each component: more would tell nothing new.
	changes map[api.Component]chan event.GenericEvent
}

func newLocal(s *setup, options Options) (*local, error) {
	l := &local{bundles: &addon.RenderedBundles{Source: s.bundles.Source, Renderer: s.bundles.Renderer, Options: options.Direct}}
	l.changes = map[api.Component]chan event.GenericEvent{}
	for _, c := range api.Components() {
		l.changes[c] = make(chan event.GenericEvent, 1)
	}
	kube, err := kubernetes.NewForConfig(s.mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	cluster, err := direct.Connect(s.mgr.GetConfig(), l.changed)
	if err != nil {
		return nil, err
	}
	l.clusters = &controllersdirect.Local{
		Cluster: cluster, Kube: kube, Enabled: options.LocalInstalls,
		Conflict: func() bool { _, conflict := s.finder.Conflict(); return conflict },
	}
	err = s.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		cluster.Close()
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("cannot add the hub's connection: %w", err)
	}
	return l, nil
}

// changed passes on that something of a component has changed. An event that waits already tells of it too.
func (l *local) changed(c api.Component) {
	select {
	case l.changes[c] <- controllersdirect.Changed():
	default:
	}
}

func (s *setup) direct(c api.Component) error {
	r := &controllersdirect.Reconciler{
		Component: c, Configs: s.hub.Configs()[c], Bundles: s.local.bundles, Clusters: s.local.clusters,
		Client: s.hub.ConfigClient, Events: s.events(), Clock: clock.RealClock{},
	}
	return r.SetupWithManager(s.mgr, controllersdirect.Informers{
		Configs: s.hub.configInformers()[c], Operators: s.hub.operator.informer(), Changes: s.local.changes[c],
	})
}
