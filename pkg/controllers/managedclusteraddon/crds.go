// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// removesCRDs reports whether the next step of the removal deletes CRDs: the deletion policy requests that and the controllers of the
// payload run, or the step has begun.
func (s *scope) removesCRDs() bool {
	switch {
	case s.crds != nil:
		return true
	case !s.deletesUserResources() || len(s.payloads) == 0 || s.foundation == nil || s.foundation.DeletionTimestamp != nil:
		return false
	}
	if s.hasPayloadRemovalBegun() {
		return false // the controllers may be gone
	}
	created, err := manifestwork.WithoutCreatedCRDs(s.foundation)
	return err != nil || created != nil
}

// hasPayloadRemovalBegun reports whether the removal of a payload has begun, or cannot be ruled out.
func (s *scope) hasPayloadRemovalBegun() bool {
	return slices.ContainsFunc(s.payloads, func(p *workv1.ManifestWork) bool {
		begun, err := manifestwork.HasRemovalBegun(p)
		return begun || err != nil
	})
}

// removeCRDs takes the next step of the deletion of the CRDs: a work of their own owns the CRDs, the foundation gives up the CRDs, and
// the work is deleted. The payload follows when the work is gone. Without the deletion policy the cluster keeps the CRDs as long as
// the work is not deleted.
func (r *Reconciler) removeCRDs(ctx context.Context, s *scope) error {
	if s.crds == nil {
		crds, err := manifestwork.CRDs(s.component, s.foundation, s.addon)
		if err != nil {
			return err
		}
		return r.createWork(ctx, crds)
	}
	if s.crds.DeletionTimestamp != nil {
		return nil
	}
	if !s.deletesUserResources() {
		return r.keepCRDs(ctx, s)
	}
	if owning := manifestwork.OwningCRDs(s.crds); owning != nil { // the policy counts again after a pause
		return r.updateWork(ctx, owning)
	}
	if applied, _ := manifestwork.Applied(s.crds); !applied {
		return nil
	}
	if s.foundation != nil && s.foundation.DeletionTimestamp == nil {
		changed, err := manifestwork.WithoutCreatedCRDs(s.foundation)
		if err != nil {
			return err
		}
		if changed != nil {
			return r.updateWork(ctx, changed)
		}
		if applied, _ := manifestwork.Applied(s.foundation); !applied {
			return nil // the agent would create the CRDs again
		}
	}
	return r.deleteWork(ctx, s.crds)
}

// keepCRDs deletes the work with the CRDs after the agent has applied that the work owns nothing.
func (r *Reconciler) keepCRDs(ctx context.Context, s *scope) error {
	switch {
	case s.crds.DeletionTimestamp != nil:
		return nil
	case !manifestwork.IsOrphaned(s.crds):
		return r.updateWork(ctx, manifestwork.Orphaned(s.crds))
	case !manifestwork.IsDeletable(s.crds):
		return nil
	}
	return r.deleteWork(ctx, s.crds)
}

func (r *Reconciler) updateWork(ctx context.Context, w *workv1.ManifestWork) error {
	if _, err := r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Update(ctx, w, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot update ManifestWork \"%s/%s\": %w", w.Namespace, w.Name, err)
	}
	return nil
}
