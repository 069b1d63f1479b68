// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Direct installs a resource without a work agent: the manager applies the objects to the cluster.
type Direct struct {
	Component api.Component
	Bundles   ConfigBundles
	Clusters  Clusters
	// Trust names the namespaces whose resources may be installed into a namespace that the cluster had before.
	Trust trust.Policy
	// Completions records which specs clusters have run. Nil keeps no record.
	Completions Completions
	// Renderings receives the reports of passes. Nil delivers every rendering at once.
	Renderings *Renderings

	ConfigClient dynamic.Interface
	Events       events.EventRecorder
	Clock        clock.PassiveClock

	// passLimit limits the passes of each resource.
	passLimit reconciler.WriteLimiter

	mu            sync.Mutex
	installations map[types.NamespacedName]*installation
	// passes is the number of passes that are using a cluster now.
	passes int
	// waitingForPass has the resources that found maxDirectPasses passes running, until their next passes begin.
	waitingForPass map[types.NamespacedName]struct{}
}

// ConfigBundles renders the bundles of resources.
type ConfigBundles interface {
	// OfConfigFrom returns the bundle of a resource in a place. A version that the place cannot reach in one step is an error.
	OfConfigFrom(ctx context.Context, component api.Component, name types.NamespacedName, place addon.Place) (*render.Bundle, error)
}

// Completions records which specs clusters have run. A configuration.Recorder implements it.
type Completions interface {
	// MarkCompleted records that a cluster has run the spec of the resource, unless another cluster did before. marked is false while the
	// history has no revision of the spec yet.
	MarkCompleted(ctx context.Context, config *unstructured.Unstructured, cluster string) (marked bool, err error)
}

const (
	// completionRetry is the time until the next pass over a cluster that runs a spec of which the history has no revision yet.
	completionRetry = time.Minute
	// maxDirectPasses is the number of passes that may use clusters at a time. A cluster that is slow holds a worker for
	// passTimeout; the other workers of the controller stay free for resources of work agents.
	maxDirectPasses = 50
	// passRetry is the time until the next pass of a resource that found maxDirectPasses passes running, for each maxDirectPasses resources
	// that wait, up to longestPassRetry. The retries of all waiting resources together stay more frequent than the ends of passes.
	passRetry        = time.Second
	longestPassRetry = 10 * time.Second
	// passTimeout bounds a pass over a cluster.
	passTimeout = 2 * time.Minute
	// passInterval is the time between two passes over a resource after the first passBurst passes. The events of a cluster start passes, and a
	// pass may write the status: without the limit, a cluster that changes an object without end would fill the storage of the hub.
	passInterval = time.Second
	passBurst    = 50
	// refusalRetry is the time until the next pass after a cluster refused requests, or has the component for another owner: the end of
	// that state causes no event.
	refusalRetry = 30 * time.Second
)

var _ Delivery = (*Direct)(nil)

// Delivers implements Delivery.
func (d *Direct) Delivers(config *unstructured.Unstructured) bool {
	return d.Clusters.InstallsDirectly(config)
}

// Finalizer implements Delivery.
func (d *Direct) Finalizer() string { return api.DirectFinalizer }

// Ensure implements Delivery.
func (d *Direct) Ensure(ctx context.Context, resource *Resource) (Outcome, error) {
	config := resource.Config
	if wait := d.takePass(config); wait > 0 {
		return Outcome{RequeueAfter: wait}, nil
	}
	t, err := d.findRecordedCluster(ctx, config)
	if unreachable := (*UnreachableError)(nil); errors.As(err, &unreachable) {
		return d.observeUnreachable(ctx, config, unreachable)
	}
	if err != nil || t == nil {
		return Outcome{}, err
	}
	if d.recordedCluster(config) == "" {
		return Outcome{}, d.recordCluster(ctx, config, t.UID) // the changed resource causes the next pass
	}
	i := d.installationOf(config, t)
	if left := i.passPause.timeLeft(d.Clock.Now()); left > 0 {
		return Outcome{RequeueAfter: left}, nil
	}
	if retry, begun := d.beginPass(client.ObjectKeyFromObject(config)); !begun {
		return Outcome{RequeueAfter: retry}, nil
	}
	defer d.endPass()
	p := &directPass{Direct: d, resource: resource, cluster: t, installation: i, observed: &status.Installation{
		Owned: true, Target: status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved, Message: t.Note},
	}}
	return p.runPass(ctx)
}

// Forget implements Delivery.
func (d *Direct) Forget(name types.NamespacedName) {
	d.mu.Lock()
	d.forgetInstallation(name)
	delete(d.waitingForPass, name)
	d.mu.Unlock()
	d.passLimit.Forget(name)
	d.Renderings.forgetReport(name)
	d.Clusters.Forget(d.Component, name)
}

// takePass returns 0 when a pass over the resource may begin now, and otherwise the time until the next pass.
func (d *Direct) takePass(config *unstructured.Unstructured) time.Duration {
	return d.passLimit.Take(client.ObjectKeyFromObject(config), d.Clock.Now(), passInterval, passBurst)
}

// beginPass reports whether a pass over the cluster of the resource may begin now, and otherwise the time until the next attempt. The caller
// ends a pass that has begun with endPass.
func (d *Direct) beginPass(resource types.NamespacedName) (retry time.Duration, begun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.passes == maxDirectPasses {
		if d.waitingForPass == nil {
			d.waitingForPass = map[types.NamespacedName]struct{}{}
		}
		d.waitingForPass[resource] = struct{}{}
		return min(passRetry*time.Duration(1+len(d.waitingForPass)/maxDirectPasses), longestPassRetry), false
	}
	delete(d.waitingForPass, resource)
	d.passes++
	return 0, true
}

func (d *Direct) endPass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.passes--
}

// observeUnreachable describes a cluster that cannot be used. The conditions keep the last observation of the cluster.
func (d *Direct) observeUnreachable(ctx context.Context, config *unstructured.Unstructured, unreachable *UnreachableError) (Outcome, error) {
	in := &status.Installation{Owned: hasFinalizer(d, config), Target: unreachable.Finding}
	if in.Owned {
		if err := d.expectBundle(ctx, config, in, unreachable.Values); err != nil {
			return Outcome{}, err
		}
	}
	if err := d.describeUnreachableRendering(config, in); err != nil {
		return Outcome{}, err
	}
	return Outcome{Installation: in, RequeueAfter: unreachable.Retry}, nil
}
