// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

	changed func(api.Component)
	views   views
	outlook outlook
	// claiming is held by the one installation that may find the cluster free.
	claiming sync.Mutex
}

// Options say how what changes on a cluster is seen.
type Options struct {
	// Changed is told the component of every object of ours that changes; empty when it is not known. It must return at
	// once.
	Changed func(api.Component)
	// Limit is how many clusters are watched, shared by all of them; nil watches all.
	Limit *WatchLimit
	// PollInterval is how often a cluster is listed that is not watched; DefaultPollInterval when it is zero.
	PollInterval time.Duration
	// Log says which clusters are not watched, and why.
	Log logr.Logger
}

// Connect makes a connection, without a request. The config's limits are those of the cluster.
func Connect(config *rest.Config, httpClient *http.Client, options Options) (*Cluster, error) {
	if options.PollInterval == 0 {
		options.PollInterval = DefaultPollInterval
	}
	c := &Cluster{
		changed: options.Changed, views: views{started: map[place]*view{}},
		outlook: outlook{interval: options.PollInterval, limit: options.Limit, log: options.Log, turn: make(chan struct{}, 1)},
	}
	var err error
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

// UID says which cluster this is: the UID of its namespace kube-system.
func (c *Cluster) UID(ctx context.Context) (types.UID, error) {
	ns, err := c.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot get namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return ns.UID, nil
}

// Watched tells that everything that is seen of the cluster is watched. As soon as that is not so any more, Options.Changed
// is called without a component.
func (c *Cluster) Watched() bool {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	return len(c.views.started) > 0 && int(c.outlook.live.Load()) == len(c.views.started)
}

// Lost is when something that was watched could not be watched any more: what the cluster answered before tells nothing
// about now. It is zero while that never happened.
func (c *Cluster) Lost() time.Time {
	if lost := c.outlook.lost.Load(); lost != nil {
		return *lost
	}
	return time.Time{}
}

// Close ends all watches.
func (c *Cluster) Close() {
	c.outlook.close()
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	c.views.closed = true
	for at, v := range c.views.started {
		v.stop()
		delete(c.views.started, at)
	}
}
