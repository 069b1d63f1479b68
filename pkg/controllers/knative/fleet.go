// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// fleetStatusInterval is the least time between two writes of a fleet configuration's counts: each write makes OCM reconcile
// every add-on that uses the configuration.
const fleetStatusInterval = 5 * time.Second

// FleetStatus counts the add-ons that a resource without a reference configures.
type FleetStatus struct {
	Component api.Component
	// AddOnsByConfig finds the ManagedClusterAddOns that a resource configures, by addon-framework's index.
	AddOnsByConfig cache.Indexer
	Versions       Versions
	Clock          clock.PassiveClock

	written writePacer
}

// Versions determines the version that a resource requests.
type Versions interface {
	// Version returns the version that a resource requests, for any cluster, and warnings about settings of the resource. The error is
	// the fault of the resource.
	Version(ctx context.Context, component api.Component, name types.NamespacedName) (version string, warnings []string, err error)
}

// reportFleet writes the counts into the status of the resource.
func (f *FleetStatus) reportFleet(ctx context.Context, w *StatusWriter, resource *Resource) (reconcile.Result, error) {
	config := resource.Config
	fleet, err := f.countAddOns(ctx, resource)
	if err != nil {
		return reconcile.Result{}, err
	}
	last, err := readStatus(config)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := resourceStatus{
		ObservedGeneration: config.GetGeneration(), Conditions: status.FleetConditions(fleet),
		Version: cmp.Or(fleet.Version, last.Version), // a spec that cannot be rendered changes no cluster
	}
	if last.equalsIgnoringTimes(now) {
		return reconcile.Result{}, nil
	}
	name, at := client.ObjectKeyFromObject(config), f.Clock.Now()
	if wait := f.written.nextWrite(name).Sub(at); wait > 0 && last.ObservedGeneration == now.ObservedGeneration {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	f.written.recordWrite(name, at)
	return reconcile.Result{}, w.writeStatus(ctx, config, last, now)
}

// countAddOns counts the add-ons that the resource configures.
func (f *FleetStatus) countAddOns(ctx context.Context, resource *Resource) (status.Fleet, error) {
	config, name := resource.Config, client.ObjectKeyFromObject(resource.Config)
	out := status.Fleet{Paused: revision.Paused(config.GetAnnotations()), Annotations: refusedAnnotations(resource.Annotations)}
	gvr := f.Component.Resource()
	hash, err := revision.Hash(config)
	if err != nil {
		return out, err
	}
	objects, err := f.AddOnsByConfig.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s", gvr.Group, gvr.Resource, name))
	if err != nil {
		return out, fmt.Errorf("cannot find the add-ons that %s %q configures: %w", f.Component.Kind(), name, err)
	}
	for _, o := range objects {
		addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn)
		if !ok || addOn.Name != f.Component.AddOnName() {
			continue
		}
		if config, ok := revision.ConfigOf(addOn); !ok || config != name { // the status also names configurations that the hub did not give
			continue
		}
		countAddOn(&out, addOn, hash)
	}
	out.Version, out.Warnings, err = f.Versions.Version(ctx, f.Component, name)
	if err != nil && (render.IsPending(err) || !errors.As(err, &out.Fault)) {
		return out, err
	}
	return out, nil
}

// countAddOn counts an add-on that the resource configures. specHash is the hash of the present spec of the resource.
func countAddOn(out *status.Fleet, addOn *addonv1beta1.ManagedClusterAddOn, specHash string) {
	cluster, conditions := addOn.Namespace, addOn.Status.Conditions
	out.Clusters = append(out.Clusters, cluster)
	switch {
	case !apimeta.IsStatusConditionTrue(conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable):
		out.NotReady = append(out.NotReady, cluster)
	case !revision.Completed(addOn, specHash):
		out.Outdated = append(out.Outdated, cluster)
	}
	if apimeta.IsStatusConditionTrue(conditions, api.RemovalHeld) {
		out.Held = append(out.Held, cluster)
	}
	if apimeta.IsStatusConditionFalse(conditions, api.ValuesResolved) {
		out.Incomplete = append(out.Incomplete, cluster)
	}
}

// writePacer remembers the time of the last write for each name, while the time delays the next write. A restart of the manager costs
// one additional write.
type writePacer struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

// nextWrite returns the earliest time of the next write.
func (p *writePacer) nextWrite(name types.NamespacedName) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[name].Add(fleetStatusInterval)
}

func (p *writePacer) recordWrite(name types.NamespacedName, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[types.NamespacedName]time.Time{}
	}
	maps.DeleteFunc(p.last, func(_ types.NamespacedName, last time.Time) bool { return at.Sub(last) >= fleetStatusInterval })
	p.last[name] = at
}
