// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Cluster is the connection to a cluster. All installations on the cluster share it and what it watches.
type Cluster struct {
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface

	// changed is told the component of an object of ours that has changed on the cluster; empty when it is not known.
	changed func(api.Component)
	views   views
}

// Connect makes a connection, without a request. The config's limits are those of the cluster. changed may be nil; it is
// called for every change of an object of ours, and must return at once.
func Connect(config *rest.Config, changed func(api.Component)) (*Cluster, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	c := &Cluster{changed: changed, views: views{started: map[schema.GroupVersionResource]*view{}}}
	if c.kube, err = kubernetes.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	c.discovery = c.kube.Discovery()
	return c, nil
}

// Close ends all watches.
func (c *Cluster) Close() {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	c.views.closed = true
	for gvr, v := range c.views.started {
		v.stop()
		delete(c.views.started, gvr)
	}
}
