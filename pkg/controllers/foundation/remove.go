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
	if s.clusterLeaves() && !s.clusterAnswers() {
		// Nobody is left to remove anything, and OCM takes the works away with the cluster.
		r.Events.Eventf(s.addon, nil, corev1.EventTypeWarning, "Orphaned", "Release",
			"Cluster %q leaves the hub out of reach: what add-on %q installed stays on it", s.addon.Namespace, s.addon.Name)
		return reconcile.Result{}, r.releaseFinalizer(ctx, s)
	}
	if len(s.payloads) > 0 {
		return r.removePayloads(ctx, s)
	}
	if s.foundation != nil {
		return reconcile.Result{}, r.delete(ctx, s.foundation)
	}
	return reconcile.Result{}, r.releaseFinalizer(ctx, s)
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
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]any{api.RepairLabel: strconv.FormatInt(now.Unix(), 10)},
	}})
	if err != nil {
		return 0, err
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return reclaimAgain, err
}

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
