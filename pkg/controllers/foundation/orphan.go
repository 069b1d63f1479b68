// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
)

// orphan gives up all works and releases the add-on. The works stay until the agent has applied that they own nothing
// any more; an agent that is away does so when it is back.
func (r *Reconciler) orphan(ctx context.Context, s *scope) error {
	if s.gate != nil { // it is about rollouts alone
		if err := r.delete(ctx, s.gate); err != nil {
			return err
		}
	}
	all, late, silent := s.works(), []string{}, []string{}
	waiting := false
	for _, w := range all {
		switch {
		case w.DeletionTimestamp != nil:
			late = append(late, w.Name) // the agent removes what it owns, and nothing can stop it
		case !work.IsOrphaned(w):
			waiting = true
			if err := r.giveUp(ctx, s, w); err != nil {
				return fmt.Errorf("cannot orphan ManifestWork \"%s/%s\": %w", w.Namespace, w.Name, err)
			}
		default:
			stopped, err := work.WebhooksStopped(w)
			if err != nil {
				return err
			}
			if stopped {
				silent = append(silent, w.Name)
			}
		}
	}
	if waiting {
		return nil // their events bring us back: the add-on goes when its works are seen to have no owner
	}
	if err := r.releaseFinalizer(ctx, s); err != nil {
		return err
	}
	note := fmt.Sprintf("As annotation %s asks, cluster %q keeps %s", api.ForceOrphanAnnotation, s.addon.Namespace, work.Contents(all...))
	if len(late) > 0 {
		note += fmt.Sprintf("; the removal of %v had begun and goes on when the cluster is back", late)
	}
	if len(silent) > 0 {
		note += fmt.Sprintf("; but webhooks of %v had been stopped and cannot be rendered: what they checked passes unchecked until it is installed again", silent)
	}
	r.Events.Eventf(s.addon, nil, corev1.EventTypeWarning, "Orphaned", "Release", "%s", note[:min(len(note), noteLimit)])
	return nil
}

// giveUp orphans one work. A payload that had begun to go gets back what it lacks.
func (r *Reconciler) giveUp(ctx context.Context, s *scope, w *workv1.ManifestWork) error {
	stopped, err := work.WebhooksStopped(w)
	if err != nil {
		return err
	}
	if stopped {
		if w, err = r.restored(ctx, s, w); err != nil {
			return err
		}
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Update(ctx, work.Orphaned(w), metav1.UpdateOptions{})
	return err
}

// restored is the payload with the webhooks that it had, or with webhook configurations that need none when what was
// delivered cannot be rendered any more: whatever is wrong there must not keep the add-on.
func (r *Reconciler) restored(ctx context.Context, s *scope, payload *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	bundle, err := r.Bundles.Bundle(ctx, s.addon)
	if err == nil && s.foundation != nil && s.foundation.Annotations[api.DigestAnnotation] == bundle.FoundationDigest {
		if w, err := work.Restored(payload, bundle); w != nil || err != nil {
			return w, err
		}
	}
	return work.Unblocked(payload)
}

// noteLimit is how long the note of an Event may be.
const noteLimit = 1000

// works are the payloads and the foundation: what users know of.
func (s *scope) works() []*workv1.ManifestWork {
	all := append([]*workv1.ManifestWork{}, s.payloads...)
	if s.foundation != nil {
		all = append(all, s.foundation)
	}
	return all
}

// letGo deletes orphaned works that have no add-on any more as soon as nothing goes with them.
func (r *Reconciler) letGo(ctx context.Context, s *scope) error {
	for _, w := range s.works() {
		if !work.IsOrphaned(w) || w.DeletionTimestamp != nil || !work.MayGo(w) {
			continue
		}
		err := r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot delete ManifestWork \"%s/%s\": %w", w.Namespace, w.Name, err)
		}
	}
	return nil
}
