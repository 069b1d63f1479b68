// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// Clusters knows which resources are served here, and the clusters that they are installed on.
type Clusters interface {
	// Serves tells whether the resource is to be installed without a work agent.
	Serves(config *unstructured.Unstructured) bool
	// Name is how messages call the resource's cluster.
	Name(config *unstructured.Unstructured) string
	// Of is the resource's cluster, also of one that is not served any more. It was seen a moment ago; the error is
	// *UnreachableError when it could not be, and ErrLooking when that is not known yet.
	Of(ctx context.Context, config *unstructured.Unstructured) (*Target, error)
	// Forget says that the resource is gone.
	Forget(c api.Component, name types.NamespacedName)
}

// Target is a cluster to install on.
type Target struct {
	Cluster *direct.Cluster
	// Hub is the UID of the hub's namespace kube-system.
	Hub types.UID
	// Values are what a resource may use of the cluster.
	Values *values.Cluster
	// LookAgain is after how long somebody has to look whether the cluster is still there; 0 means that nobody has to, and
	// that Look and Explain are nil.
	LookAgain time.Duration
	// Look looks.
	Look func(context.Context) error
	// Explain tells whether an error means that the cluster cannot be reached, and why.
	Explain func(error) (*UnreachableError, bool)
}

// guard ends a context after passTimeout, and as soon as the cluster does not answer any more: requests under way would wait
// for much longer.
func (t *Target) guard(ctx context.Context) (guarded context.Context, stop func()) {
	ctx, end := context.WithTimeout(ctx, passTimeout)
	guarded, cancel := context.WithCancelCause(ctx)
	stop = func() {
		cancel(nil)
		end()
	}
	if t.LookAgain == 0 {
		return guarded, stop
	}
	go func() {
		tick := time.NewTicker(t.LookAgain)
		defer tick.Stop()
		for {
			select {
			case <-guarded.Done():
				return
			case <-tick.C:
			}
			if err := t.Look(guarded); err != nil && guarded.Err() == nil {
				cancel(err)
			}
		}
	}()
	return guarded, stop
}

// explain tells whether an error of what was done under the guard means that the cluster cannot be reached, and why.
func (t *Target) explain(guarded context.Context, err error) (*UnreachableError, bool) {
	if err == nil || t.Explain == nil {
		return nil, false
	}
	if guarded.Err() != nil {
		if unreachable, ok := t.Explain(context.Cause(guarded)); ok {
			return unreachable, true
		}
	}
	return t.Explain(err)
}

// UnreachableError is why a cluster cannot be used.
type UnreachableError struct {
	Finding status.Finding
	// Retry is after how long that may be different without an event; 0 means never.
	Retry time.Duration
	// Values are what a resource may use of the cluster all the same; nil when they are not known.
	Values *values.Cluster
}

// Error implements error.
func (e *UnreachableError) Error() string { return e.Finding.Reason + ": " + e.Finding.Message }

// Everywhere is the hub and all clusters of ClusterProfiles.
type Everywhere struct {
	Local  *Local
	Remote *Remote
}

var _ Clusters = (*Everywhere)(nil)

func (e *Everywhere) of(config *unstructured.Unstructured) Clusters {
	if _, refers := target.ReferenceOf(config); refers {
		return e.Remote
	}
	return e.Local
}

// Serves implements Clusters.
func (e *Everywhere) Serves(config *unstructured.Unstructured) bool {
	return e.of(config).Serves(config)
}

// Name implements Clusters.
func (e *Everywhere) Name(config *unstructured.Unstructured) string { return e.of(config).Name(config) }

// Of implements Clusters.
func (e *Everywhere) Of(ctx context.Context, config *unstructured.Unstructured) (*Target, error) {
	return e.of(config).Of(ctx, config)
}

// Forget implements Clusters.
func (e *Everywhere) Forget(c api.Component, name types.NamespacedName) {
	e.Local.Forget(c, name)
	e.Remote.Forget(c, name)
}
