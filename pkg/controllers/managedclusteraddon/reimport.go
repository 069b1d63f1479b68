// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

// hasFormerWorks reports whether the hub has works of a cluster that had the name before: the works are older than the ManagedCluster. A
// new cluster may have a Knative of another installer, and none of the Jobs has run there. A hub that was restored from a backup has
// recreated its objects, in any order, and the foundation names the lost hub: such works are of the same cluster.
func (r *Reconciler) hasFormerWorks(ctx context.Context, s *scope) (bool, error) {
	if s.cluster == nil || s.foundation == nil {
		return false, nil
	}
	isOlder := func(w *workv1.ManifestWork) bool { return w.CreationTimestamp.Before(&s.cluster.CreationTimestamp) }
	if !slices.ContainsFunc(append(s.listWorks(), s.listOtherWorks()...), isOlder) {
		return false, nil
	}
	if manifestwork.IsProbe(s.foundation) {
		return true, nil
	}
	uid, err := r.Hub(ctx)
	return err == nil && manifestwork.HubOf(s.foundation) == uid, err
}

// giveUpFormerWorks deletes the works of a cluster that had the name before. The works leave every object on a cluster, and no deletion
// waits for the agent of the former cluster. The foundation is a probe first, so that addon-framework writes no payload again, and goes
// last, so that the next manager continues: a foundation that is being deleted goes with its finalizer, so that the manager releases such a
// foundation last. The deletions start the next pass, which begins with a probe of the new cluster.
func (r *Reconciler) giveUpFormerWorks(ctx context.Context, s *scope) error {
	others := slices.DeleteFunc(append(s.listOtherWorks(), s.listWorks()...), func(w *workv1.ManifestWork) bool { return w == s.foundation })
	foundation, isLeaving := s.foundation, s.foundation.DeletionTimestamp != nil
	var err error
	if !isLeaving {
		foundation, err = r.releaseWork(ctx, foundation)
	}
	for _, w := range others {
		if err == nil {
			w, err = r.releaseWork(ctx, w)
		}
		if err == nil {
			err = r.deleteReleasedWork(ctx, w)
		}
	}
	if err == nil && isLeaving {
		foundation, err = r.releaseWork(ctx, foundation)
	}
	if err == nil {
		err = r.deleteReleasedWork(ctx, foundation)
	}
	if err != nil {
		return fmt.Errorf("cannot release the ManifestWorks of the cluster that had name %q before: %w", s.cluster.Name, err)
	}
	if s.addon != nil {
		r.Events.Eventf(s.addon, nil, corev1.EventTypeWarning, "ClusterReplaced", "GiveUp",
			"ManagedCluster %q was registered again (UID %s): the manager deletes the ManifestWorks of the former cluster without a removal there, and searches for an existing %s on the cluster",
			s.cluster.Name, s.cluster.UID, s.component)
	}
	return nil
}

// releaseWork orphans the objects of a work, and removes the finalizer of the agent. A foundation becomes a probe. releaseWork returns nil
// for a work that is gone.
func (r *Reconciler) releaseWork(ctx context.Context, w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	changed := manifestwork.WithoutAgent(manifestwork.Orphaned(w))
	delete(changed.Annotations, api.DigestAnnotation)
	return hub.IgnoreNotFound(r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Update(ctx, changed, metav1.UpdateOptions{}))
}

// deleteReleasedWork deletes a work, unless the work is nil or an agent has changed the work since: an agent that sees the deletion of its
// work removes the objects of the work. A work that was being deleted has gone with its last finalizer.
func (r *Reconciler) deleteReleasedWork(ctx context.Context, w *workv1.ManifestWork) error {
	if w == nil || w.DeletionTimestamp != nil {
		return nil
	}
	err := r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion},
	})
	return client.IgnoreNotFound(err)
}

// listOtherWorks returns the works that listWorks leaves out, as far as the works exist: the gate and the verification, which only serve
// rollouts, and a probe that a foundation has replaced.
func (s *scope) listOtherWorks() []*workv1.ManifestWork {
	return slices.DeleteFunc([]*workv1.ManifestWork{s.gate, s.verification, s.replacedProbe}, func(w *workv1.ManifestWork) bool { return w == nil })
}
