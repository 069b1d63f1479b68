// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// ensureFinalizer sets the finalizer before the first object of the add-on is delivered.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	return r.patchAddOn(ctx, s, func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, api.FoundationFinalizer) })
}

func (r *Reconciler) releaseFinalizer(ctx context.Context, s *scope) error {
	return r.patchAddOn(ctx, s, func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.RemoveFinalizer(a, api.FoundationFinalizer) })
}
