// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Reconciler serves one ManagedClusterAddOn of ours at a time.
type Reconciler struct {
	AddOns      addonlisters.ManagedClusterAddOnLister
	Clusters    clusterlisters.ManagedClusterLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	// AddOnsByConfig finds the ManagedClusterAddOns that a configuration is for, by addon-framework's index.
	AddOnsByConfig cache.Indexer
	// Configs are the KnativeServings and KnativeEventings.
	Configs map[api.Component]cache.Indexer

	AddOnClient addonclient.Interface
	WorkClient  workclient.Interface
	Bundles     addon.Bundles
	Targets     addon.Targets
	Pauses      addon.Pauses
	Adoptions   addon.Adoptions
	// Hub is the UID of the hub's namespace kube-system: it says whose an installation is.
	Hub    func(context.Context) (types.UID, error)
	Events events.EventRecorder
	// Trigger makes addon-framework look at the add-on again.
	Trigger func(cluster, addon string)
	Clock   clock.PassiveClock
}

// staleRetry is after how long a reconcile that has read an old object is done again, unless an event comes first.
const staleRetry = time.Second

// Reconcile brings the works of one add-on one step further.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(req)
	if err != nil || s == nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	switch {
	case s.addon == nil:
		err = r.letGo(ctx, s)
	case s.addon.DeletionTimestamp != nil:
		result, err = r.remove(ctx, s)
	case s.inherits():
		err = r.inheritConfigs(ctx, s)
	default:
		err = r.deliver(ctx, s)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil // the cache is behind; no fault
	}
	return result, err
}

// deliver ensures the finalizer, the foundation and the gate, and tells addon-framework when the payload may follow. As long
// as it is not known that the cluster has no installation of somebody else, the foundation is a probe, and nothing needs a
// finalizer or a gate.
func (r *Reconciler) deliver(ctx context.Context, s *scope) error {
	target, err := r.Targets.OfAddOn(s.addon)
	if err != nil {
		return err
	}
	bundle, fault, err := r.bundle(ctx, s)
	if err != nil {
		return err
	}
	hub, err := r.Hub(ctx)
	if err != nil {
		return err
	}
	seen := r.look(s, bundle, hub)
	told := target
	if target.Resolved() && seen.refusal != nil {
		told = *seen.refusal
	}
	if err := r.report(ctx, s, told, outcome{bundle: bundle, fault: fault}); err != nil {
		return err
	}
	if r.Pauses.PausedBy(s.addon) != "" {
		return r.pause(ctx, s)
	}
	if target.Target == nil || fault != nil || s.clusterLeaves() {
		return nil //nolint:nilerr // a fault was told
	}
	if !seen.clear {
		return r.ensureProbe(ctx, s, bundle)
	}
	return r.install(ctx, s, bundle, hub)
}

// install has the cluster get the bundle, one step after the other.
func (r *Reconciler) install(ctx context.Context, s *scope, bundle *render.Bundle, hub types.UID) error {
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return err
	}
	if err := r.ensureFoundation(ctx, s, bundle, hub); err != nil {
		return err
	}
	if err := r.keepGate(ctx, s, bundle); err != nil {
		return err
	}
	r.Trigger(s.addon.Namespace, s.addon.Name)
	return nil
}

// pause leaves the works as they are, but for the hub's own notes. An add-on that has taken over somebody else's works holds them from now on, paused or
// not: they must not go with it unseen.
func (r *Reconciler) pause(ctx context.Context, s *scope) error {
	if s.nothingWritten() || s.clusterLeaves() {
		return nil
	}
	if written, err := r.tellGate(ctx, s); written || err != nil {
		return err
	}
	return r.ensureFinalizer(ctx, s)
}

// bundle is what the cluster should have, or what is wrong with the configuration: then addon-framework reports it too, and
// only a change of the configuration helps.
func (r *Reconciler) bundle(ctx context.Context, s *scope) (bundle *render.Bundle, fault *render.Error, err error) {
	bundle, err = r.Bundles.Bundle(ctx, s.addon)
	if errors.As(err, &fault) {
		return nil, fault, nil
	}
	return bundle, nil, err
}

// gather reads what a reconcile needs. It returns nil when there is nothing to do.
func (r *Reconciler) gather(req reconcile.Request) (*scope, error) {
	component, ok := componentOf(req.Name)
	if !ok {
		return nil, nil
	}
	a, err := r.AddOns.ManagedClusterAddOns(req.Namespace).Get(req.Name)
	if apierrors.IsNotFound(err) {
		a, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ManagedClusterAddOn %q: %w", req, err)
	}
	s := &scope{component: component, namespace: req.Namespace, addon: a}
	s.cluster, err = r.Clusters.Get(req.Namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot get ManagedCluster %q: %w", req.Namespace, err)
	}
	return s, s.gatherWorks(r.Foundations, r.Payloads)
}

func componentOf(addOnName string) (api.Component, bool) {
	for _, c := range api.Components() {
		if c.AddOnName() == addOnName {
			return c, true
		}
	}
	return "", false
}
