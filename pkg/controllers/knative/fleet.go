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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/rollout"
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
	// Granter finds the add-ons that the resource will configure when their turn comes.
	Granter *revision.Granter
	// Foundations are the works with api.FoundationLabel: foundations record the version that runs on a cluster, and gates whether the
	// cluster runs the configuration that OCM wants.
	Foundations worklisters.ManifestWorkLister
	// Payloads are the works that addon-framework wrote, which tell the delivered configurations.
	Payloads worklisters.ManifestWorkLister
	Versions Versions
	Clock    clock.PassiveClock

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
	last, err := readStatus(config)
	if err != nil {
		return reconcile.Result{}, err
	}
	name, at := client.ObjectKeyFromObject(config), f.Clock.Now()
	if wait := f.written.nextWrite(name).Sub(at); wait > 0 && last.ObservedGeneration == config.GetGeneration() {
		return reconcile.Result{RequeueAfter: wait}, nil // nothing is counted that could not be written
	}
	fleet, err := f.countAddOns(ctx, resource)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := resourceStatus{
		ObservedGeneration: config.GetGeneration(), Conditions: status.FleetConditions(fleet), Version: last.Version, Annotations: last.Annotations,
		Rollout: &fleet.Rollout,
	}
	if len(fleet.Waiting) == 0 { // until then clusters run the version before
		now.Version = cmp.Or(fleet.Version, last.Version) // a spec that cannot be rendered changes no cluster
	}
	if last.equalsIgnoringTimes(now) {
		return reconcile.Result{}, nil
	}
	f.written.recordWrite(name, at)
	return reconcile.Result{}, w.writeStatus(ctx, config, last, now)
}

// countAddOns counts the add-ons that the resource configures.
func (f *FleetStatus) countAddOns(ctx context.Context, resource *Resource) (status.Fleet, error) {
	config, name := resource.Config, client.ObjectKeyFromObject(resource.Config)
	out := status.Fleet{Paused: revision.Paused(config.GetAnnotations()), Annotations: refusedAnnotations(resource.Annotations)}
	hash, err := revision.Hash(config)
	if err != nil {
		return out, err
	}
	states, err := f.readClusters(&out, presentSpec{name, hash})
	if err != nil {
		return out, err
	}
	held := out.Rollout.Held
	out.Rollout = rollout.CountClusters(hash, states)
	out.Rollout.Held = held
	out.Version, out.Warnings, err = f.Versions.Version(ctx, f.Component, name)
	if err != nil && (render.IsPending(err) || !errors.As(err, &out.Fault)) {
		return out, err
	}
	return out, nil
}

// readClusters returns the states of the clusters that have the resource, or get the resource when their turn comes, and adds the
// clusters to the lists of out.
func (f *FleetStatus) readClusters(out *status.Fleet, spec presentSpec) ([]rollout.ClusterState, error) {
	addOns, err := f.listAddOns(spec.config)
	if err != nil {
		return nil, err
	}
	var states []rollout.ClusterState
	for _, addOn := range addOns {
		completed, err := f.hasCompleted(addOn, spec)
		if err != nil {
			return nil, err
		}
		state := readAddOn(addOn, spec, completed)
		countAddOn(out, addOn, &state, completed)
		if addOn.DeletionTimestamp != nil {
			continue // no longer selected
		}
		if version := f.versionOf(addOn); version != "" {
			state.Versions = map[string]string{f.Component.AddOnName(): version}
		}
		states = append(states, state)
	}
	return states, nil
}

// listAddOns returns the add-ons that the resource configures, or will configure when the turn of their clusters comes.
func (f *FleetStatus) listAddOns(name types.NamespacedName) ([]*addonv1beta1.ManagedClusterAddOn, error) {
	gvr := f.Component.Resource()
	configured, err := f.AddOnsByConfig.ByIndex(index.AddonByConfig, fmt.Sprintf("%s/%s/%s", gvr.Group, gvr.Resource, name))
	if err != nil {
		return nil, fmt.Errorf("cannot find the add-ons that %s %q configures: %w", f.Component.Kind(), name, err)
	}
	var out []*addonv1beta1.ManagedClusterAddOn
	for _, o := range configured {
		addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn)
		if !ok || addOn.Name != f.Component.AddOnName() {
			continue
		}
		if config, ok := revision.ConfigOf(addOn); ok && config == name { // the status also names configurations that the hub did not give
			out = append(out, addOn)
		}
	}
	for _, o := range f.AddOnsByConfig.List() {
		addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn)
		if !ok || addOn.Name != f.Component.AddOnName() || addOn.DeletionTimestamp != nil || len(addOn.Spec.Configs) > 0 {
			continue // a configuration of its own has no turn
		}
		awaits, err := f.Granter.Awaits(addOn, name)
		if err != nil {
			return nil, err
		}
		if awaits {
			out = append(out, addOn)
		}
	}
	return out, nil
}

// versionOf returns the version that runs on the cluster of an add-on; empty when unknown.
func (f *FleetStatus) versionOf(addOn *addonv1beta1.ManagedClusterAddOn) string {
	foundation, err := f.Foundations.ManifestWorks(addOn.Namespace).Get(manifestwork.FoundationName(f.Component))
	if err != nil {
		return "" // nothing was delivered yet
	}
	return foundation.Annotations[api.RunningVersionAnnotation]
}

// hasCompleted reports whether the cluster of an add-on that the resource configures runs the spec. OCM keeps the spec that a cluster last
// completed: after a return to that spec from a spec that the cluster has, maybe in part, only gate and payloads tell whether the cluster runs
// the spec again. The gate of an add-on that is being deleted no longer changes.
func (f *FleetStatus) hasCompleted(addOn *addonv1beta1.ManagedClusterAddOn, spec presentSpec) (bool, error) {
	config, ok := revision.ConfigOf(addOn)
	if !ok || config != spec.config || !revision.Completed(addOn, f.Component, spec.hash) {
		return false, nil
	}
	gate, err := hub.IgnoreNotFound(f.Foundations.ManifestWorks(addOn.Namespace).Get(manifestwork.GateName(f.Component)))
	if err != nil {
		return false, fmt.Errorf("cannot get the gate of cluster %q: %w", addOn.Namespace, err)
	}
	if gate == nil || addOn.DeletionTimestamp != nil {
		return true, nil // the next gate follows a missing gate
	}
	payloads, err := f.Payloads.ManifestWorks(addOn.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: addOn.Name}))
	if err != nil {
		return false, fmt.Errorf("cannot list the works of cluster %q: %w", addOn.Namespace, err)
	}
	return manifestwork.RunsSpec(gate, payloads, f.Component, config, spec.hash), nil
}

// presentSpec is the spec of a resource, with the hash of the spec.
type presentSpec struct {
	config types.NamespacedName
	hash   string
}

// isAssignedTo reports whether the cluster of an add-on should have the spec now.
func (s presentSpec) isAssignedTo(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	desired := revision.Desired(addOn)
	return desired != nil && desired.Namespace == s.config.Namespace && desired.Name == s.config.Name && desired.SpecHash == s.hash
}

// readAddOn returns the state of the cluster of an add-on in the rollout of the spec.
func readAddOn(addOn *addonv1beta1.ManagedClusterAddOn, spec presentSpec, completed bool) rollout.ClusterState {
	out := rollout.ClusterState{Name: addOn.Namespace, Updated: completed || spec.isAssignedTo(addOn)}
	find := func(condition string) metav1.Condition {
		if c := apimeta.FindStatusCondition(addOn.Status.Conditions, condition); c != nil {
			return *c
		}
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: fleetv1alpha1.ReasonChildNotReady}
	}
	set := func(phase rollout.Phase, c metav1.Condition) {
		out.Phase, out.Reason, out.Since = phase, c.Reason, c.LastTransitionTime.Time
	}
	target, degraded := find(api.TargetClusterResolved), find(api.Degraded)
	progressing, available := find(addonv1beta1.ManagedClusterAddOnConditionProgressing), find(addonv1beta1.ManagedClusterAddOnConditionAvailable)
	switch {
	case target.Status == metav1.ConditionFalse:
		set(rollout.Skipped, target)
		out.Unresolved = true
	case degraded.Status == metav1.ConditionTrue:
		set(rollout.Failed, degraded)
	case !completed && progressing.Reason == addonv1beta1.ProgressingReasonFailed:
		set(rollout.Failed, progressing)
	case !out.Updated:
		out.Phase, out.Reason = rollout.Waiting, fleetv1alpha1.ReasonWaiting
	case available.Status != metav1.ConditionTrue:
		set(rollout.Progressing, available)
	case apimeta.IsStatusConditionFalse(addOn.Status.Conditions, api.Verified):
		set(rollout.Progressing, find(api.Verified))
	case !completed:
		out.Phase, out.Reason, out.Since = rollout.Progressing, api.ReasonDelivering, progressing.LastTransitionTime.Time
	}
	return out
}

// countAddOn adds the cluster of an add-on to the lists.
func countAddOn(out *status.Fleet, addOn *addonv1beta1.ManagedClusterAddOn, state *rollout.ClusterState, completed bool) {
	conditions := addOn.Status.Conditions
	isAvailable := apimeta.IsStatusConditionTrue(conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable)
	isHeld := apimeta.IsStatusConditionTrue(conditions, api.RemovalHeld)
	if isHeld {
		out.Rollout.Held++
	}
	out.Clusters = append(out.Clusters, addOn.Namespace)
	for _, list := range []struct {
		names   *[]string
		applies bool
	}{
		{&out.NotReady, !isAvailable},
		{&out.Outdated, isAvailable && !completed},
		{&out.Held, isHeld},
		{&out.Failed, state.Phase == rollout.Failed},
		{&out.Unresolved, state.Unresolved},
		{&out.Ineligible, apimeta.IsStatusConditionFalse(conditions, api.VersionMigrationEligible)},
		{&out.Lacking, apimeta.IsStatusConditionFalse(conditions, api.DependenciesInstalled)},
		{&out.Unverified, apimeta.IsStatusConditionFalse(conditions, api.Verified)},
		{&out.Incomplete, apimeta.IsStatusConditionFalse(conditions, api.ValuesResolved)},
		{&out.Waiting, addOn.DeletionTimestamp == nil && !completed},
	} {
		if list.applies {
			*list.names = append(*list.names, addOn.Namespace)
		}
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
