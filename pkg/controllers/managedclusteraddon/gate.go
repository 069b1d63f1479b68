// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// reconcileGate closes the gate before the payload of another configuration is delivered, and opens the gate when the cluster runs
// that configuration, and a requested verification has succeeded. An open gate stays open until OCM wants another configuration for the cluster, even if workloads fail.
func (r *Reconciler) reconcileGate(ctx context.Context, s *scope, bundle *render.Bundle) error {
	wanted := s.wantedConfigs()
	switch {
	case s.gate == nil:
		gate := manifestwork.Gate(bundle, s.addon, wanted)
		gate.Spec.Executor = r.Executor
		return r.createWork(ctx, gate)
	case s.gate.DeletionTimestamp != nil:
		return nil // the next gate follows the deletion
	case !s.ownsGate(), manifestwork.LacksExecutor(s.gate, r.Executor):
		return r.takeOverGate(ctx, s, bundle)
	case !manifestwork.IsClosed(s.gate) && !maps.Equal(manifestwork.ConfigsOf(s.gate), wanted),
		manifestwork.IsClosed(s.gate) && !manifestwork.HasGateReference(s.gate, bundle):
		return r.patchWork(ctx, s.gate, func(gate *workv1.ManifestWork) { manifestwork.CloseGate(gate, bundle) })
	case !manifestwork.IsClosed(s.gate) && !manifestwork.HasGateReference(s.gate, bundle):
		return r.openGate(ctx, s.gate, bundle)
	case !manifestwork.IsClosed(s.gate):
		return nil
	}
	if written, err := r.ensureGateConfigs(ctx, s); written || err != nil {
		return err
	}
	if !maps.Equal(manifestwork.Delivered(s.payloads), wanted) || !maps.Equal(manifestwork.ConfigsOf(s.gate), wanted) || !s.runsPayload(bundle) || !s.isVerified(bundle) {
		return nil
	}
	if a, err := r.AddOns.ManagedClusterAddOns(s.namespace).Get(s.addon.Name); err != nil || a.ResourceVersion != s.addon.ResourceVersion {
		return client.IgnoreNotFound(err) // OCM may want another configuration, and an event follows
	}
	return r.openGate(ctx, s.gate, bundle)
}

func (r *Reconciler) openGate(ctx context.Context, gate *workv1.ManifestWork, bundle *render.Bundle) error {
	return r.patchWork(ctx, gate, func(gate *workv1.ManifestWork) { manifestwork.OpenGate(gate, bundle) })
}

// runsPayload reports whether the cluster runs its payload, which may be another rendering than the bundle.
func (s *scope) runsPayload(bundle *render.Bundle) bool {
	if manifestwork.HasOtherRendering(bundle, s.payloads) {
		return manifestwork.RunningVersion(s.component, s.payloads) != ""
	}
	return manifestwork.Runs(bundle, s.foundation, s.payloads)
}

// ensureGateConfigs makes a closed gate name the delivered configuration, if OCM wants that configuration. OCM reports the first outdated
// work, in no order: with different configurations OCM would alternately report that the payload is not ready and that the gate has
// another configuration.
func (r *Reconciler) ensureGateConfigs(ctx context.Context, s *scope) (written bool, err error) {
	delivered := manifestwork.Delivered(s.payloads)
	switch {
	case s.gate == nil, s.gate.DeletionTimestamp != nil, !manifestwork.IsClosed(s.gate), !manifestwork.IsReported(s.gate):
		return false, nil
	case delivered == nil, !maps.Equal(delivered, s.wantedConfigs()), maps.Equal(manifestwork.ConfigsOf(s.gate), delivered):
		return false, nil
	}
	return true, r.patchWork(ctx, s.gate, func(gate *workv1.ManifestWork) {
		metav1.SetMetaDataAnnotation(&gate.ObjectMeta, workv1.ManifestConfigSpecHashAnnotationKey, manifestwork.ConfigsText(delivered))
	})
}

func (s *scope) ownsGate() bool {
	return len(s.gate.OwnerReferences) == 1 && s.gate.OwnerReferences[0].UID == s.addon.UID
}

// takeOverGate makes the add-on the owner of a gate that another add-on handed over, and sets a missing executor. The gate stays open
// or closed.
func (r *Reconciler) takeOverGate(ctx context.Context, s *scope, bundle *render.Bundle) error {
	changed := s.gate.DeepCopy()
	changed.OwnerReferences = manifestwork.Gate(bundle, s.addon, nil).OwnerReferences
	if manifestwork.LacksExecutor(changed, r.Executor) {
		changed.Spec.Executor = r.Executor
	}
	if _, err := r.WorkClient.WorkV1().ManifestWorks(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot take over ManifestWork \"%s/%s\": %w", changed.Namespace, changed.Name, err)
	}
	return nil
}

// patchWork changes a work, and fails when the work has changed since the read.
func (r *Reconciler) patchWork(ctx context.Context, w *workv1.ManifestWork, change func(*workv1.ManifestWork)) error {
	_, err := hub.Patch(ctx, r.WorkClient.WorkV1().ManifestWorks(w.Namespace), w, change)
	return err
}
