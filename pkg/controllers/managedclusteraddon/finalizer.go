// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

// ensureFinalizer sets the finalizer before the first object of the add-on is delivered. An add-on that is gone is an error: Kubernetes would delete
// the works that the pass writes for the add-on.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	written, err := hub.Patch(ctx, r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addon.Namespace), s.addon,
		func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, api.FoundationFinalizer) })
	if err != nil {
		return err
	}
	s.addon = written
	return nil
}

func (r *Reconciler) releaseFinalizer(ctx context.Context, s *scope) error {
	return r.patchAddOn(ctx, s, func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.RemoveFinalizer(a, api.FoundationFinalizer) })
}
