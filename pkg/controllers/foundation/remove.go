// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
)

// reclaimAgain is how long the work agent gets to report that it owns what it applied before it is asked again.
const reclaimAgain = 5 * time.Second

// remove takes the installation off the cluster: payload, then foundation, then the finalizer. Events of the works bring
// it back after each step.
func (r *Reconciler) remove(ctx context.Context, s *scope) (reconcile.Result, error) {
	if !slices.Contains(s.addon.Finalizers, api.FoundationFinalizer) {
		return reconcile.Result{}, nil
	}
	if s.foundation != nil && s.nothingWritten() {
		return reconcile.Result{}, r.releaseFinalizer(ctx, s) // there is nothing to remove, and the probe goes with the add-on
	}
	if s.clusterLeaves() && !s.clusterAnswers() {
		// Nobody is left to remove anything, and OCM takes the works away with the cluster.
		r.Events.Eventf(s.addon, nil, corev1.EventTypeWarning, "Orphaned", "Release",
			"Cluster %q leaves the hub out of reach: what add-on %q installed stays on it", s.addon.Namespace, s.addon.Name)
		return reconcile.Result{}, r.releaseFinalizer(ctx, s)
	}
	if s.addon.Annotations[api.ForceOrphanAnnotation] == "true" {
		return reconcile.Result{}, r.orphan(ctx, s)
	}
	if s.addon.Annotations[api.RemovalAllowedAnnotation] == "" {
		return reconcile.Result{}, r.reportHeld(ctx, s) // package guard decides
	}
	if by := r.Pauses.PausedBy(s.addon); by != "" {
		return reconcile.Result{}, r.reportPause(ctx, s, by)
	}
	if err := r.reportRemoval(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if len(s.payloads) > 0 {
		return r.removePayloads(ctx, s)
	}
	if s.gate != nil {
		if err := r.delete(ctx, s.gate); err != nil {
			return reconcile.Result{}, err
		}
	}
	if s.foundation != nil {
		return reconcile.Result{}, r.removeFoundation(ctx, s)
	}
	if s.gate != nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.releaseFinalizer(ctx, s)
}

// keepsWaiting tells that only CRDs and Namespace are left, and that somebody has to say whether they are in use: nothing
// on the hub sees the resources of users.
func (s *scope) keepsWaiting() bool {
	return s.addon.Annotations[api.DeletionPolicyAnnotation] == api.DeletionPolicyDelete &&
		len(s.payloads) == 0 && s.foundation != nil && s.foundation.DeletionTimestamp == nil
}

// removeFoundation deletes the foundation, which keeps CRDs and Namespace unless the deletion policy says otherwise.
func (r *Reconciler) removeFoundation(ctx context.Context, s *scope) error {
	f := s.foundation
	if s.keepsWaiting() || f.DeletionTimestamp != nil {
		return nil
	}
	changed, err := work.Keeping(f)
	if s.deletesUserResources() {
		changed, err = work.OwningAll(f), nil
	}
	if err != nil {
		return err
	}
	if changed != nil {
		if _, err := r.WorkClient.WorkV1().ManifestWorks(f.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("cannot tell ManifestWork \"%s/%s\" what to own: %w", f.Namespace, f.Name, err)
		}
		return nil
	}
	if s.awaitsAgent() {
		return nil
	}
	return r.delete(ctx, f)
}

func (s *scope) deletesUserResources() bool {
	return s.addon.Annotations[api.DeletionPolicyAnnotation] == api.DeletionPolicyDeleteUserResources
}

// awaitsAgent tells that the agent has not yet applied the foundation as what it is to be deleted as: it removes what it has
// applied as its own, whatever the work says by then.
func (s *scope) awaitsAgent() bool {
	if s.deletesUserResources() {
		applied, _ := work.Applied(s.foundation)
		return !applied && slices.Contains(s.foundation.Finalizers, workv1.ManifestWorkFinalizer)
	}
	return s.foundation.Annotations[api.KeptAnnotation] != "" && !work.MayGo(s.foundation)
}

// removePayloads does the next step of every payload.
func (r *Reconciler) removePayloads(ctx context.Context, s *scope) (reconcile.Result, error) {
	var result reconcile.Result
	for _, p := range s.payloads {
		removal, err := work.NextRemoval(p)
		if err != nil {
			return reconcile.Result{}, err
		}
		log.FromContext(ctx).V(1).Info("removing payload", "work", p.Name, "step", removal.Step, "why", removal.Why)
		switch removal.Step {
		case work.StopWebhooks, work.Reclaim:
			_, err = r.WorkClient.WorkV1().ManifestWorks(p.Namespace).Update(ctx, removal.Payload, metav1.UpdateOptions{})
		case work.RetryReclaim:
			result.RequeueAfter, err = r.applyAgain(ctx, p)
		case work.Delete:
			err = r.delete(ctx, p)
		case work.AwaitStop, work.AwaitReclaim, work.AwaitDelete:
			// The next event of the work goes on.
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("cannot remove ManifestWork \"%s/%s\" (%s): %w", p.Namespace, p.Name, removal.Step, err)
		}
	}
	return result, nil
}

// applyAgain changes a label, at which the agent applies the work again, unless it did so a moment ago. The label's value
// is when it was last changed, in seconds since 1970. It returns when to look again.
func (r *Reconciler) applyAgain(ctx context.Context, w *workv1.ManifestWork) (time.Duration, error) {
	now := r.Clock.Now()
	if seconds, err := strconv.ParseInt(w.Labels[api.RepairLabel], 10, 64); err == nil {
		if wait := time.Unix(seconds, 0).Add(reclaimAgain).Sub(now); wait > 0 {
			return min(wait, reclaimAgain), nil
		}
	}
	return reclaimAgain, r.relabel(ctx, w, now)
}

// relabel sets the label at which the agent applies a work again.
func (r *Reconciler) relabel(ctx context.Context, w *workv1.ManifestWork, at time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{api.RepairLabel: repairValue(at)}}})
	if err != nil {
		return err
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func repairValue(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func (r *Reconciler) delete(ctx context.Context, w *workv1.ManifestWork) error {
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
