// Copyright Contributors to the Open Cluster Management project

package clustercache

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
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
)

// Cluster is the connection to a cluster. All installations on the cluster share the connection and the views.
type Cluster struct {
	Core      corev1client.CoreV1Interface
	Dynamic   dynamic.Interface
	Metadata  metadata.Interface
	Discovery discovery.DiscoveryInterface

	onChange func(api.Component)
	views    viewSet
	// quota bounds the objects in all views.
	quota  objectQuota
	policy watchPolicy
	poller *poller
	// ClaimLock serializes installations that check whether the cluster is free and then create an anchor.
	ClaimLock sync.Mutex
}

// Options configure how a Cluster detects changes.
type Options struct {
	// Changed is called with the component of every labelled object that changes, or with an empty component when the
	// component is unknown. Changed must not block.
	Changed func(api.Component)
	// Limit bounds on how many clusters all objects are watched. All clusters share the limit; nil is no limit.
	Limit *WatchLimit
	// Lists bounds how many lists after the first lists run at a time. All clusters share the limit; nil is no limit.
	Lists *ListLimit
	// PollInterval is the shortest time between two lists of objects that are not watched; zero is DefaultPollInterval.
	PollInterval time.Duration
	// Log receives which clusters are not watched, and why.
	Log logr.Logger
}

// Connect returns a connection without making a request. The rate limit of the config applies to all clients of the cluster.
func Connect(config *rest.Config, httpClient *http.Client, options Options) (*Cluster, error) {
	if options.PollInterval == 0 {
		options.PollInterval = DefaultPollInterval
	}
	c := &Cluster{
		onChange: options.Changed, views: viewSet{started: Views{}, needed: map[string][]Place{}}, poller: newPoller(options.PollInterval, options.Lists),
		policy: watchPolicy{interval: options.PollInterval, limit: options.Limit, log: options.Log, startSlot: make(chan struct{}, 1)},
	}
	budget := newWatchBudget(clock.RealClock{}, func(why error) {
		c.policy.cutWatches(why)
		c.onChange("")
	})
	bounded := *httpClient
	if bounded.Transport == nil {
		bounded.Transport = http.DefaultTransport
	}
	bounded.Transport = &writeTransport{next: budget.wrapTransport(bounded.Transport), onWrite: c.poller.recordChange}
	httpClient = &bounded
	var err error
	if c.Core, err = corev1client.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	if c.Discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	return c, nil
}

// WatchProblem returns why the cluster is polled although the cluster can be watched; empty when there is no such reason.
func (c *Cluster) WatchProblem() string { return c.policy.watchProblem() }

// UID returns the UID of namespace kube-system, which identifies the cluster.
func (c *Cluster) UID(ctx context.Context) (types.UID, error) {
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	ns, err := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot get namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return ns.UID, CheckMetadata(&ns.ObjectMeta)
}

// RecordLoss notes that the cluster did not answer: objects that are not watched may have changed in the meantime, and the cluster, not the list of
// a place, may be the cause of failed lists.
func (c *Cluster) RecordLoss() {
	c.poller.requestLists()
	for _, v := range c.StartedViews() {
		v.restartListFailure()
	}
}

// Restorations returns how often the resource versions of the cluster went back, as after a restore from a backup.
func (c *Cluster) Restorations() int32 { return c.policy.restorations.Load() }

// Watched reports whether the watches of all views that the policy watches are live, at least one. Options.Changed is called without a
// component as soon as a watch ends, as all watches of a silent cluster do.
func (c *Cluster) Watched() bool {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	watches := 0
	for at := range c.views.started {
		if c.policy.watches(at) {
			watches++
		}
	}
	return watches > 0 && int(c.policy.liveWatches.Load()) == watches
}

// Lost returns when the last watch failed, or zero. Responses of the cluster from before that time say nothing about the
// present.
func (c *Cluster) Lost() time.Time { return ptr.Deref(c.policy.lostAt.Load(), time.Time{}) }

// ConnectionLost returns when the last watch failed because its connection ended, as the connections of a silent cluster do; zero without such a
// failure.
func (c *Cluster) ConnectionLost() time.Time {
	return ptr.Deref(c.policy.connectionLostAt.Load(), time.Time{})
}

// Close ends all watches.
func (c *Cluster) Close() {
	c.policy.close()
	c.poller.close()
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	c.views.closed = true
	for at, v := range c.views.started {
		v.cancel()
		delete(c.views.started, at)
	}
}
