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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// longestSilence is the time that the agent of a cluster that is being detached has to begin a removal.
const longestSilence = 5 * time.Minute

// measureSilence records the first pass that waits for the agent of a cluster that is being detached, and returns the time until longestSilence is
// over; 0 when the removal does not wait for the agent, or when the time is over. A manager that starts measures anew.
func (r *Reconciler) measureSilence(s *scope) (left time.Duration, err error) {
	name := types.NamespacedName{Namespace: s.namespace, Name: s.addon.Name}
	isRequested := s.addon.Annotations[api.RemovalAllowedAnnotation] != "" && r.Pauses.PausedBy(s.addon) == "" && !s.awaitsDeletionPolicy()
	begun, err := s.hasAgentBegun()
	if err != nil {
		return 0, err
	}
	if s.cluster == nil || !s.isClusterDetaching() || !s.forcedOrphan && (begun || !isRequested) {
		r.silences.Delete(name)
		return 0, nil
	}
	r.silences.LoadOrStore(name, r.Clock.Now())
	r.readSilence(s, name)
	return max(longestSilence-s.agentSilence, 0), nil
}

// readSilence reads the record of measureSilence. The record outlasts the add-on, whose works wait for the agent too, until the ManagedCluster is gone.
func (r *Reconciler) readSilence(s *scope, name types.NamespacedName) {
	if s.cluster == nil || !s.isClusterDetaching() {
		r.silences.Delete(name)
		return
	}
	since, _ := r.silences.Load(name)
	if t, ok := since.(time.Time); ok {
		s.agentSilence = r.Clock.Now().Sub(t)
	}
}

// hasAgentBegun reports whether the agent has begun to remove the installation.
func (s *scope) hasAgentBegun() (bool, error) {
	if s.isBeingRemoved() {
		return true, nil
	}
	for _, p := range s.payloads {
		if begun, err := manifestwork.HasRemovalBegun(p); begun || err != nil {
			return begun, err
		}
	}
	return false, nil
}

// isToBeOrphaned reports whether the cluster keeps the installation: an administrator abandons the installation, or the cluster is
// detached without an agent. An agent that has begun a removal continues the removal after the return: half of an installation
// blocks the cluster.
func (s *scope) isToBeOrphaned() (bool, error) {
	switch {
	case s.forcedOrphan, s.cluster == nil:
		return true, nil
	case !s.isAgentLost():
		return false, nil
	case s.addon.Annotations[api.RemovalAllowedAnnotation] == "":
		return true, nil
	}
	begun, err := s.hasAgentBegun()
	return !begun, err
}

// orphanInstallation orphans all works and releases the add-on. The works stay until the agent has applied that the works own no
// objects; an unreachable agent does so after the reconnection. OCM deletes all works of a detached cluster when the add-on is gone, and
// waits for the agent of each work: the add-on of such a cluster waits until the agent has applied the works. The works of a lost agent are no
// longer the agent's.
func (r *Reconciler) orphanInstallation(ctx context.Context, s *scope) (reconcile.Result, error) {
	for _, w := range s.listOtherWorks() {
		if err := r.deleteWork(ctx, w); err != nil {
			return reconcile.Result{}, err
		}
	}
	bundle, rendering := r.bundleToRestore(ctx, s)
	if rendering {
		return reconcile.Result{RequeueAfter: pendingRetry}, nil
	}
	all, late, silent := s.listWorks(), []string{}, []string{}
	waiting := false
	for _, w := range all {
		switch {
		case w.DeletionTimestamp != nil:
			late = append(late, w.Name) // the hub cannot stop the agent from removing owned objects
		case !manifestwork.IsOrphaned(w) || s.isAgentLost() && manifestwork.HasAgent(w):
			waiting = true
			if err := r.orphanWork(ctx, s, w, bundle); err != nil {
				return reconcile.Result{}, fmt.Errorf("cannot orphan ManifestWork \"%s/%s\": %w", w.Namespace, w.Name, err)
			}
		case s.mayRemoveObjects(w):
			waiting = true
		default:
			stopped, err := manifestwork.WorkloadsStopped(w)
			if err != nil {
				return reconcile.Result{}, err
			}
			if stopped {
				silent = append(silent, w.Name)
			}
		}
	}
	if waiting {
		return reconcile.Result{}, nil // an event of the works starts the pass in which the add-on goes
	}
	if err := r.releaseFinalizer(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	r.noteOrphaned(s, late, silent)
	return reconcile.Result{}, nil
}

// noteOrphaned emits the Event that names the objects on the cluster. late are the works whose removal had begun, silent the works
// with workloads that could not be restored.
func (r *Reconciler) noteOrphaned(s *scope, late, silent []string) {
	kept := fmt.Sprintf("cluster %q keeps %s", s.namespace, manifestwork.Contents(s.listWorks()...))
	note, end := fmt.Sprintf("As annotation %s requests, %s", api.ForceOrphanAnnotation, kept), "continues when the cluster returns"
	if s.isAgentLost() {
		note = fmt.Sprintf("Because the cluster leaves the hub without a connected work agent, %s; to manage or remove the objects, let the cluster join again and enable add-on %q",
			kept, s.addon.Name)
		end = "may be incomplete"
	}
	if len(late) > 0 {
		note += fmt.Sprintf("; the removal of %v had begun and %s", late, end)
	}
	if len(silent) > 0 {
		note += fmt.Sprintf("; but the workloads of %v had been stopped and cannot be rendered: each gets 1 replica but the webhooks, and until the next installation no webhook checks resources", silent)
	}
	r.Events.Eventf(s.addon, nil, corev1.EventTypeWarning, "Orphaned", "Release", "%s", message.OneLine(note, message.MaxNote))
}

// bundleToRestore returns the bundle that the stopped workloads of the works are restored from, and whether the bundle is still being
// rendered. bundle is nil when no workload was stopped, and when the configuration has a fault: no fault may keep the add-on.
func (r *Reconciler) bundleToRestore(ctx context.Context, s *scope) (bundle *render.Bundle, rendering bool) {
	needed := slices.ContainsFunc(s.listWorks(), func(w *workv1.ManifestWork) bool {
		stopped, err := manifestwork.WorkloadsStopped(w)
		return w.DeletionTimestamp == nil && !manifestwork.IsOrphaned(w) && err == nil && stopped
	})
	if !needed {
		return nil, false
	}
	bundle, fault, err := addon.DetermineBundle(ctx, r.Bundles, s.addon)
	if err != nil {
		return nil, false
	}
	return bundle, addon.IsRendering(fault)
}

// orphanWork lets the cluster keep the objects of a work when the work is deleted. A payload whose removal had begun gets the workloads
// back first.
func (r *Reconciler) orphanWork(ctx context.Context, s *scope, w *workv1.ManifestWork, bundle *render.Bundle) error {
	stopped, err := manifestwork.WorkloadsStopped(w)
	if err != nil {
		return err
	}
	if stopped {
		if w, err = s.restorePayload(w, bundle); err != nil {
			return err
		}
	}
	changed := manifestwork.Orphaned(w)
	if s.isAgentLost() {
		changed = manifestwork.WithoutAgent(changed)
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

// restorePayload returns the payload with its former workloads, or with webhook configurations that need no webhook when the
// delivered bundle cannot be rendered any more.
func (s *scope) restorePayload(payload *workv1.ManifestWork, bundle *render.Bundle) (*workv1.ManifestWork, error) {
	if bundle != nil && s.foundation != nil && s.foundation.Annotations[api.DigestAnnotation] == bundle.FoundationDigest {
		if w, err := manifestwork.RestoreWorkloads(payload, bundle, s.foundation); w != nil || err != nil {
			return w, err
		}
	}
	return manifestwork.RestoreWithoutWebhooks(payload)
}

// listWorks returns the works with objects on the cluster: the payloads, the foundation, and the CRDs of a removal.
func (s *scope) listWorks() []*workv1.ManifestWork {
	all := append([]*workv1.ManifestWork{}, s.payloads...)
	for _, w := range []*workv1.ManifestWork{s.foundation, s.crds} {
		if w != nil {
			all = append(all, w)
		}
	}
	return all
}

// deleteOrphanedWorks deletes orphaned works without an add-on as soon as the deletion removes no object from the cluster. Deleted
// works of a lost agent go at once. The foundation goes last: an add-on that takes over a payload learns from the foundation which
// Namespaces and CRDs the hub has created.
func (r *Reconciler) deleteOrphanedWorks(ctx context.Context, s *scope) (reconcile.Result, error) {
	var result reconcile.Result
	all := append(s.listWorks(), s.listOtherWorks()...)
	for _, w := range all {
		var err error
		switch {
		case w.DeletionTimestamp != nil && s.isClusterDetaching() && !s.isClusterAvailable() && manifestwork.HasAgent(w):
			if left := w.DeletionTimestamp.Add(longestSilence).Sub(r.Clock.Now()); left > 0 && !s.isAgentLost() {
				result.RequeueAfter = reconciler.Soonest(result.RequeueAfter, left)
				continue
			}
			_, err = r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Update(ctx, manifestwork.WithoutAgent(w), metav1.UpdateOptions{})
		case w == s.foundation && len(s.payloads) > 0:
		case w.DeletionTimestamp == nil && manifestwork.IsOrphaned(w) && manifestwork.IsDeletable(w):
			err = r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion},
			})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("cannot delete ManifestWork \"%s/%s\": %w", w.Namespace, w.Name, err)
		}
	}
	return result, nil
}
