// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Reconciler reconciles the ManagedClusterAddOns of this project.
type Reconciler struct {
	AddOns      addonlisters.ManagedClusterAddOnLister
	Clusters    clusterlisters.ManagedClusterLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	// AddOnsByConfig holds addon-framework's index of the ManagedClusterAddOns by their configurations.
	AddOnsByConfig cache.Indexer
	// Configs are the caches of KnativeServings and KnativeEventings.
	Configs map[api.Component]cache.Indexer

	// Revisions is the cache of ControllerRevisions with api.RevisionLabel, with the indexes of package revision.
	Revisions cache.Indexer
	// Granter determines which configurations the hub gives to an add-on.
	Granter *revision.Granter

	AddOnClient addonclient.Interface
	WorkClient  workclient.Interface
	// RevisionClient writes the ControllerRevisions that record hand-overs and completed revisions.
	RevisionClient kubernetes.Interface
	Bundles        addon.Bundles
	Targets        addon.Targets
	Pauses         addon.Pauses
	Permissions    addon.Permissions
	// Executor is the executor of works without an executor; nil means that the agent applies the works with its own permissions.
	Executor *workv1.ManifestWorkExecutor
	// Hub returns the UID of the hub's namespace kube-system, which identifies the owner of an installation.
	Hub    func(context.Context) (types.UID, error)
	Events events.EventRecorder
	// Trigger enqueues the add-on in addon-framework.
	Trigger func(cluster, addon string)
	Clock   clock.PassiveClock

	// details limits the writes that change only details of conditions.
	details reconciler.WriteLimiter
	// differences holds the time of the first pass that found another metadata of the payloads than the hub wants, by the name of the
	// add-on.
	differences sync.Map
	// silences holds the time of the first pass that waited for the agent of a cluster that is being detached, by the name of the add-on.
	silences sync.Map
}

const (
	// pendingRetry is the time until the next pass while a bundle is being rendered.
	pendingRetry = time.Second
	// firstWritesWait is the time that a new add-on waits for the first writes of OCM.
	firstWritesWait = 10 * time.Second
)

// Reconcile takes the next step of the delivery or removal of one add-on.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gatherScope(req)
	if err != nil || s == nil {
		return reconcile.Result{}, err
	}
	if former, err := r.hasFormerWorks(ctx, s); former || err != nil {
		if err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, r.giveUpFormerWorks(ctx, s)
	}
	if s.addon == nil {
		r.details.Forget(req.NamespacedName)
		r.differences.Delete(req.NamespacedName)
		r.readSilence(s, req.NamespacedName)
		return r.deleteOrphanedWorks(ctx, s)
	}
	result, err := r.reconcileAddOn(ctx, s)
	if err == nil {
		result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, s.detailDelay)
	}
	return result, err
}

// reconcileAddOn takes the next step of an add-on that exists.
func (r *Reconciler) reconcileAddOn(ctx context.Context, s *scope) (reconcile.Result, error) {
	if desired := revision.Desired(s.addon); desired != nil {
		reconciler.Describe(ctx, reconciler.Subject{Revision: desired.SpecHash})
	}
	switch {
	case s.addon.DeletionTimestamp != nil:
		return r.removeInstallation(ctx, s)
	case s.inheritsConfigs():
		return reconcile.Result{}, r.inheritConfigs(ctx, s)
	}
	if wait := r.awaitFirstWrites(s); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	return r.recordAndDeliver(ctx, s)
}

// awaitFirstWrites returns the time that a new add-on still waits for the first writes of OCM; 0 when the wait is over. OCM writes a new
// add-on several times within 0.3 s, and each write of the manager in between would conflict with one of these writes. The condition that ends the
// wait starts the next pass.
func (r *Reconciler) awaitFirstWrites(s *scope) time.Duration {
	isWritten := apimeta.FindStatusCondition(s.addon.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionConfigured) != nil
	if isWritten || s.cluster == nil || s.foundation != nil || len(s.payloads) > 0 {
		return 0
	}
	wait := s.addon.CreationTimestamp.Add(firstWritesWait).Sub(r.Clock.Now())
	if wait > firstWritesWait { // the clock of the manager is behind the clock of the hub
		return 0
	}
	return max(wait, 0)
}

// recordAndDeliver records the facts of the hub on the add-on, and then delivers by the record.
func (r *Reconciler) recordAndDeliver(ctx context.Context, s *scope) (reconcile.Result, error) {
	if written, err := r.ensureRecord(ctx, s); written || err != nil {
		return reconcile.Result{}, err
	}
	in, err := r.gatherDelivery(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	decision := addon.DetermineDelivery(in)
	if decision.State == addon.Rendering {
		return reconcile.Result{RequeueAfter: pendingRetry}, nil // the last report stays true
	}
	if err := r.reportDelivery(ctx, s, in, decision); err != nil {
		return reconcile.Result{}, err
	}
	if s.crds != nil { // a removal that was given up has left the work
		if err := r.keepCRDs(ctx, s); err != nil {
			return reconcile.Result{}, err
		}
	}
	result, err := r.deliverWorks(ctx, s, in, decision.State)
	if err != nil {
		return result, err
	}
	if err := r.endHandover(ctx, s); err != nil || decision.State == addon.Paused {
		return result, err
	}
	return result, r.recordRunningVersion(ctx, s)
}

// gatherDelivery reads the facts that determine the delivery.
func (r *Reconciler) gatherDelivery(ctx context.Context, s *scope) (addon.DeliveryInput, error) {
	in := addon.DeliveryInput{
		Component: s.component, PausedBy: r.Pauses.PausedBy(s.addon), Detaching: s.isClusterDetaching(),
		Foundation: s.foundation, Gate: s.gate, Payloads: s.payloads, Configs: s.addon.Status.ConfigReferences,
	}
	var err error
	if in.Target, err = r.Targets.OfAddOn(s.addon); err != nil {
		return in, err
	}
	if in.Bundle, in.Fault, err = addon.DetermineBundle(ctx, r.Bundles, s.addon); err != nil {
		return in, err
	}
	if s.hub, err = r.Hub(ctx); err != nil {
		return in, err
	}
	in.Ownership = r.determineOwnership(s, in.Bundle)
	return in, nil
}

// deliverWorks writes the works that the state permits. As long as the owner of the component on the cluster is not known,
// the foundation is a probe, which needs neither finalizer nor gate.
func (r *Reconciler) deliverWorks(ctx context.Context, s *scope, in addon.DeliveryInput, state addon.DeliveryState) (result reconcile.Result, err error) {
	if s.isBeingRemoved() && state != addon.Paused {
		return result, nil // the works of the next installation follow the end of the deletion
	}
	switch state {
	case addon.Rendering, addon.Unresolved, addon.Detaching:
		return result, nil
	case addon.InvalidConfiguration:
		if result, err = r.redeliverPayload(ctx, s, in); err == nil {
			result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, in.Fault.RetryAfter())
		}
		return result, err
	case addon.Paused:
		return result, r.keepPausedWorks(ctx, s)
	case addon.Refused, addon.Probing:
		if !s.permitsProbe() {
			return result, nil // the installation stays as it is
		}
		return result, r.ensureProbe(ctx, s, in.Bundle)
	case addon.AwaitingTurn:
		return result, r.keepRendering(ctx, s, in.Bundle)
	case addon.AwaitingFoundation, addon.AwaitingGate:
		return result, r.ensureInstallation(ctx, s, in.Bundle)
	case addon.Deliverable:
		if result.RequeueAfter, err = r.restorePayloads(ctx, s, in.Bundle); err != nil {
			return reconcile.Result{}, err
		}
		return result, r.ensureInstallation(ctx, s, in.Bundle)
	}
	return result, fmt.Errorf("cannot deliver to cluster %q in state %q", s.namespace, state)
}

// ensureInstallation writes the finalizer, the foundation and the gate of the bundle, and lets addon-framework write the payload.
func (r *Reconciler) ensureInstallation(ctx context.Context, s *scope, bundle *render.Bundle) error {
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return err
	}
	if err := r.ensureFoundation(ctx, s, bundle); err != nil {
		return err
	}
	if err := r.deleteReplacedProbe(ctx, s); err != nil {
		return err
	}
	if recorded, err := r.reconcileVerification(ctx, s, bundle); recorded || err != nil {
		return err
	}
	if err := r.reconcileGate(ctx, s, bundle); err != nil {
		return err
	}
	if err := r.recordCompletion(ctx, s, bundle); err != nil {
		return err
	}
	r.Trigger(s.addon.Namespace, s.addon.Name)
	return nil
}

// keepPausedWorks leaves the works as the works are. The finalizer is set in a pause too: an add-on that has taken over works must not
// disappear and take the works along.
func (r *Reconciler) keepPausedWorks(ctx context.Context, s *scope) error {
	if s.hasNoInstallation() || s.isClusterDetaching() {
		return nil
	}
	return r.ensureFinalizer(ctx, s)
}
