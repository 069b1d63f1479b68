// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

const (
	// reclaimRetry is the time that the work agent has, after the first request, to report that the agent owns the applied objects.
	reclaimRetry = 5 * time.Second
	// longestReclaimRetry is the longest time between two requests. The pauses grow with the age of the removal.
	longestReclaimRetry = 4 * time.Minute
)

// removeInstallation takes the next step of the removal. While a cluster is being detached, the next pass comes at the latest when the agent counts
// as lost.
func (r *Reconciler) removeInstallation(ctx context.Context, s *scope) (reconcile.Result, error) {
	left, err := r.measureSilence(s)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.removeInOrder(ctx, s)
	if err == nil {
		result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, left)
	}
	return result, err
}

// removeInOrder removes the Service of a verification, the payload, then the foundation, then the finalizer; with the resources of users, the CRDs before all
// others. Events of the works start the next pass after each step.
func (r *Reconciler) removeInOrder(ctx context.Context, s *scope) (reconcile.Result, error) {
	if !slices.Contains(s.addon.Finalizers, api.FoundationFinalizer) {
		return reconcile.Result{}, nil
	}
	if s.foundation != nil && s.hasNoInstallation() {
		return reconcile.Result{}, r.releaseFinalizer(ctx, s) // the probe goes with the add-on
	}
	if orphaned, err := s.isToBeOrphaned(); orphaned || err != nil {
		if err != nil {
			return reconcile.Result{}, err
		}
		return r.orphanInstallation(ctx, s)
	}
	if s.addon.Annotations[api.RemovalAllowedAnnotation] == "" {
		return r.reportHeld(ctx, s) // the removal guard decides
	}
	if by := r.Pauses.PausedBy(s.addon); by != "" {
		return reconcile.Result{}, r.reportPause(ctx, s, by)
	}
	if err := r.reportRemoval(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if wait := r.timeForVerification(s); s.verification != nil && wait > 0 { // Knative's controllers remove the finalizers of the Service's resources
		return reconcile.Result{RequeueAfter: wait}, r.removeVerification(ctx, s)
	}
	if s.removesCRDs() {
		return reconcile.Result{}, r.removeCRDs(ctx, s)
	}
	if s.awaitsDeletionPolicy() {
		return reconcile.Result{}, nil
	}
	if len(s.payloads) > 0 {
		return r.removePayloads(ctx, s)
	}
	return reconcile.Result{}, r.endRemoval(ctx, s)
}

// endRemoval removes the gate and the foundation, and then the finalizer, after the payloads.
func (r *Reconciler) endRemoval(ctx context.Context, s *scope) error {
	if s.gate != nil {
		if err := r.deleteWork(ctx, s.gate); err != nil {
			return err
		}
	}
	if s.verification != nil {
		return nil
	}
	if s.foundation != nil {
		return r.removeFoundation(ctx, s)
	}
	if s.gate != nil {
		return nil
	}
	return r.releaseFinalizer(ctx, s)
}

// timeForVerification returns how long the other steps of a removal wait for the deletion of the verification: a webhook of Knative that is
// gone refuses the deletion of the Service until the reclaim of the payload has made the webhook configurations ignore failures.
func (r *Reconciler) timeForVerification(s *scope) time.Duration {
	if s.verification == nil || s.verification.DeletionTimestamp == nil {
		return delivery.LongestStop
	}
	return s.verification.DeletionTimestamp.Add(delivery.LongestStop).Sub(r.Clock.Now())
}

// awaitsDeletionPolicy reports whether an administrator has to decide about CRDs and Namespace: the hub does not know the resources of
// users. The decision comes before the removal of the payload, whose controllers remove the finalizers of these resources; a removal of
// the payload that has begun ends before the decision. Nobody has to decide about objects that the cluster had before.
func (s *scope) awaitsDeletionPolicy() bool {
	return s.deletionPolicy == api.DeletionPolicyDelete && s.foundation != nil && s.foundation.DeletionTimestamp == nil &&
		manifestwork.HasCreated(s.foundation) && !s.hasPayloadRemovalBegun()
}

// removeFoundation deletes the foundation, which keeps CRDs and Namespace unless the deletion policy says otherwise.
func (r *Reconciler) removeFoundation(ctx context.Context, s *scope) error {
	f := s.foundation
	if f.DeletionTimestamp != nil {
		return nil
	}
	changed, err := manifestwork.KeepCRDs(f)
	if s.deletesUserResources() {
		changed, err = manifestwork.OwningCreated(f)
	}
	if err != nil {
		return err
	}
	if changed != nil {
		if _, err := r.WorkClient.WorkV1().ManifestWorks(f.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("cannot make ManifestWork \"%s/%s\" own its objects: %w", f.Namespace, f.Name, err)
		}
		return nil
	}
	if s.awaitsAgentApply() {
		return nil
	}
	if s.deletesUserResources() || s.deletionPolicy == api.DeletionPolicyDelete {
		if err := r.noteKeptObjects(s); err != nil {
			return err
		}
	}
	return r.deleteWork(ctx, f)
}

// noteKeptObjects emits an Event with the objects that the cluster keeps although the deletion policy requests the deletion.
func (r *Reconciler) noteKeptObjects(s *scope) error {
	kept, err := manifestwork.NotCreated(s.foundation)
	if err != nil || len(kept) == 0 {
		return err
	}
	note := fmt.Sprintf("Cluster %q keeps objects from before add-on %q, and objects that an older manager has not recorded: %s", s.namespace, s.addon.Name, delivery.Listed(kept))
	r.Events.Eventf(s.addon, nil, corev1.EventTypeNormal, "Kept", "Remove", "%s", message.Shorten(note, message.MaxNote))
	return nil
}

func (s *scope) deletesUserResources() bool {
	return s.deletionPolicy == api.DeletionPolicyDeleteUserResources
}

// awaitsAgentApply reports whether the agent has not yet applied the foundation with its last delete option: the agent removes the
// objects that the agent has applied as owner, whatever delete option the work has later.
func (s *scope) awaitsAgentApply() bool {
	if s.deletesUserResources() {
		applied, _ := manifestwork.Applied(s.foundation)
		return !applied && manifestwork.HasAgent(s.foundation)
	}
	return s.foundation.Annotations[api.KeptAnnotation] != "" && !manifestwork.IsDeletable(s.foundation)
}

// removePayloads takes the next step of the removal of every payload. No payload passes the stop of workloads before all others: one payload may
// have the permissions of the workloads of another.
func (r *Reconciler) removePayloads(ctx context.Context, s *scope) (reconcile.Result, error) {
	var result reconcile.Result
	removals, isStopping := make([]manifestwork.Removal, len(s.payloads)), false
	for i, p := range s.payloads {
		var err error
		if removals[i], err = manifestwork.NextRemoval(p, r.Clock.Now()); err != nil {
			return reconcile.Result{}, err
		}
		isStopping = isStopping || removals[i].IsStop()
	}
	for i, p := range s.payloads {
		removal := removals[i]
		if isStopping && !removal.IsStop() || s.verification != nil && !removal.IsStop() && !removal.IsReclaim() {
			continue // the agent deletes the Service of the verification by permissions of the payload
		}
		var err error
		log.FromContext(ctx).V(1).Info("removing payload", "work", p.Name, "step", removal.Step, "why", removal.Why)
		switch removal.Step {
		case manifestwork.StopWorkloads, manifestwork.Reclaim, manifestwork.StopApplying:
			_, err = r.WorkClient.WorkV1().ManifestWorks(p.Namespace).Update(ctx, removal.Payload, metav1.UpdateOptions{})
		case manifestwork.RetryReclaim, manifestwork.RetryStop:
			var wait time.Duration
			wait, err = r.retryReclaim(ctx, s.addon, p)
			result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, reconciler.Soonest(wait, removal.Retry))
		case manifestwork.Delete:
			err = r.deleteWork(ctx, p)
		case manifestwork.AwaitStop:
			result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, removal.Retry)
			if removal.Payload != nil {
				_, err = r.WorkClient.WorkV1().ManifestWorks(p.Namespace).Update(ctx, removal.Payload, metav1.UpdateOptions{})
			}
		case manifestwork.AwaitReclaim, manifestwork.AwaitStopApplying, manifestwork.AwaitDelete:
			// The next event of the work starts the next step.
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("cannot remove ManifestWork \"%s/%s\" (%s): %w", p.Namespace, p.Name, removal.Step, err)
		}
	}
	return result, nil
}

// retryReclaim makes the agent apply the work again, unless the pause after the last request is not over. retryReclaim returns the time
// until the next pass.
func (r *Reconciler) retryReclaim(ctx context.Context, a *addonv1beta1.ManagedClusterAddOn, w *workv1.ManifestWork) (time.Duration, error) {
	now := r.Clock.Now()
	if last, ok := lastApplyRequest(w); ok && !last.After(now) { // a time ahead comes from another clock
		if wait := last.Add(reclaimPause(a, last)).Sub(now); wait > 0 {
			return min(wait, longestReclaimRetry), nil
		}
	}
	return reclaimPause(a, now), requestApply(ctx, r.WorkClient, w, now)
}

// reclaimPause returns the pause after a request at the time: as long as the removal had lasted, so that each pause doubles the time
// since the deletion without a count of the requests.
func reclaimPause(a *addonv1beta1.ManagedClusterAddOn, request time.Time) time.Duration {
	if a.DeletionTimestamp == nil {
		return reclaimRetry
	}
	return min(max(request.Sub(a.DeletionTimestamp.Time), reclaimRetry), longestReclaimRetry)
}

func (r *Reconciler) deleteWork(ctx context.Context, w *workv1.ManifestWork) error {
	if w.DeletionTimestamp != nil {
		return nil
	}
	err := r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &w.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete ManifestWork \"%s/%s\": %w", w.Namespace, w.Name, err)
	}
	return nil
}
