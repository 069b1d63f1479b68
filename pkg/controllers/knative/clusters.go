// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// Clusters finds the clusters of direct installations.
type Clusters interface {
	// InstallsDirectly reports whether the manager installs the resource without a work agent.
	InstallsDirectly(config *unstructured.Unstructured) bool
	// DisplayName returns the name of the resource's cluster in messages.
	DisplayName(config *unstructured.Unstructured) string
	// InstallNamespace returns the namespace of the installation on the cluster.
	InstallNamespace(config *unstructured.Unstructured) string
	// FindCluster returns the cluster of the resource, also for a resource that the manager no longer installs directly. The cluster
	// answered a moment ago; the error is *UnreachableError for a cluster that did not. The cluster is nil while a probe is pending,
	// and the end of the probe enqueues the resource.
	FindCluster(ctx context.Context, config *unstructured.Unstructured) (*ReachableCluster, error)
	// Forget drops everything that is remembered about a resource that is gone.
	Forget(c api.Component, name types.NamespacedName)
}

// ReachableCluster is a cluster to install on.
type ReachableCluster struct {
	Cluster *clustercache.Cluster
	// UID is the UID of the cluster's namespace kube-system: the identity of the cluster, whatever leads there.
	UID types.UID
	// HubUID is the UID of the hub's namespace kube-system.
	HubUID types.UID
	// Values are the values of the cluster that a resource may use.
	Values *values.Cluster
	// Note names the parts of the resource that have no effect on the cluster; empty when there are none.
	Note string
	// NextProbe is the time after which a pass that still runs probes the cluster, and Monitor probes the cluster. The hub needs no
	// probes: NextProbe is 0 and Monitor is nil.
	NextProbe time.Duration
	Monitor   Monitor
}

// Monitor checks the connection to a cluster during a pass.
type Monitor interface {
	// Probe returns an error when the cluster does not answer.
	Probe(ctx context.Context) error
	// ConfirmIdentity returns an error unless the cluster answers with its UID now.
	ConfirmIdentity(ctx context.Context) error
	// UnreachableError returns the reason for an error that means that the cluster cannot be reached.
	UnreachableError(err error) (unreachable *UnreachableError, ok bool)
}

// watchLiveness returns a context that ends after passTimeout, and as soon as the cluster does not answer a probe: the requests
// of the pass would wait for much longer. The caller has to call stop.
func (c *ReachableCluster) watchLiveness(ctx context.Context) (passCtx context.Context, stop func()) {
	passCtx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(passTimeout, func() { cancel(direct.ErrPassTimeout) })
	stop = func() {
		timer.Stop()
		cancel(nil)
	}
	if c.NextProbe == 0 {
		return passCtx, stop
	}
	go func() {
		tick := time.NewTicker(c.NextProbe)
		defer tick.Stop()
		for {
			select {
			case <-passCtx.Done():
				return
			case <-tick.C:
			}
			if err := c.Monitor.Probe(passCtx); err != nil && passCtx.Err() == nil {
				cancel(err)
			}
		}
	}()
	return passCtx, stop
}

// confirmMissing returns an error unless the cluster that lacks an installation is the cluster of the connection: the address may lead to another
// cluster since the last probe.
func (c *ReachableCluster) confirmMissing(ctx context.Context) error {
	if c.Monitor == nil {
		return nil
	}
	return c.Monitor.ConfirmIdentity(ctx)
}

// isSlow reports whether a context of watchLiveness ended after passTimeout, although the cluster answered every probe.
func isSlow(passCtx context.Context) bool {
	return errors.Is(context.Cause(passCtx), direct.ErrPassTimeout)
}

// unreachableError returns the reason for an error under the context of watchLiveness that means that the cluster cannot be
// reached.
func (c *ReachableCluster) unreachableError(passCtx context.Context, err error) (*UnreachableError, bool) {
	if err == nil || c.Monitor == nil || isSlow(passCtx) {
		return nil, false
	}
	if passCtx.Err() != nil {
		if unreachable, ok := c.Monitor.UnreachableError(context.Cause(passCtx)); ok {
			return unreachable, true
		}
	}
	return c.Monitor.UnreachableError(err)
}

// UnreachableError is the reason why a cluster cannot be used.
type UnreachableError struct {
	Finding status.Finding
	// Retry is the time until the next pass; 0 waits for an event.
	Retry time.Duration
	// Values are the values of the cluster that the hub knows; nil when the hub knows none.
	Values *values.Cluster
}

// Error implements error.
func (e *UnreachableError) Error() string { return e.Finding.Reason + ": " + e.Finding.Message }
