// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// reconcileGate opens the gate when the cluster runs the configurations that OCM wants, and a requested verification has succeeded. Until OCM
// wants other configurations, the gate then follows the workloads: OCM's minSuccessTime starts over when the workloads were not available.
// The gate is closed before a cluster with other payloads gets back the configurations that the gate names.
func (r *Reconciler) reconcileGate(ctx context.Context, s *scope, bundle *render.Bundle) error {
	switch {
	case s.gate == nil:
		gate := manifestwork.Gate(bundle, s.addon)
		gate.Spec.Executor = r.Executor
		return r.createWork(ctx, gate)
	case s.gate.DeletionTimestamp != nil:
		return nil // the next gate follows the deletion
	case !s.ownsGate(), manifestwork.LacksExecutor(s.gate, r.Executor):
		return r.takeOverGate(ctx, s, bundle)
	}
	gate := s.gate.DeepCopy()
	manifestwork.RestoreGate(gate, bundle)
	wanted, running := s.wantedConfigs(), manifestwork.RunningConfigs(gate)
	switch {
	case running != nil && maps.Equal(running, wanted):
		s.followPayloads(gate, bundle)
	case maps.Equal(manifestwork.Delivered(s.payloads), wanted) && s.runsPayload(bundle) && s.isVerified(bundle) && r.isPresent(s.addon):
		manifestwork.OpenGate(gate, wanted)
	case !maps.Equal(manifestwork.ConfigsOf(gate), running):
		manifestwork.HoldGate(gate)
	}
	return r.patchWork(ctx, s.gate, gate.DeepCopyInto)
}

// followPayloads updates a gate that records the configurations that OCM wants.
func (s *scope) followPayloads(gate *workv1.ManifestWork, bundle *render.Bundle) {
	running := manifestwork.RunningConfigs(gate)
	available, isReported := manifestwork.AreAvailable(s.payloads)
	switch {
	case manifestwork.HasOtherConfigs(s.payloads, running, bundle, s.foundation):
		manifestwork.CloseGate(gate)
	case isReported && available:
		manifestwork.OpenGate(gate, running)
	case isReported, !maps.Equal(manifestwork.ConfigsOf(gate), running):
		manifestwork.HoldGate(gate)
	}
}

// isPresent reports whether the cache of add-ons has no later version of the add-on, in which OCM may want other configurations. An event
// follows a later version.
func (r *Reconciler) isPresent(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	a, err := r.AddOns.ManagedClusterAddOns(addOn.Namespace).Get(addOn.Name)
	return err == nil && a.ResourceVersion == addOn.ResourceVersion
}

// runsPayload reports whether the cluster runs its payload, which may be another rendering than the bundle.
func (s *scope) runsPayload(bundle *render.Bundle) bool {
	if manifestwork.HasOtherRendering(bundle, s.payloads) {
		return manifestwork.RunningVersion(s.component, s.payloads) != ""
	}
	return manifestwork.Runs(bundle, s.foundation, s.payloads)
}

func (s *scope) ownsGate() bool {
	return len(s.gate.OwnerReferences) == 1 && s.gate.OwnerReferences[0].UID == s.addon.UID
}

// takeOverGate makes the add-on the owner of a gate that another add-on handed over, and sets a missing executor. The gate stays open
// or closed.
func (r *Reconciler) takeOverGate(ctx context.Context, s *scope, bundle *render.Bundle) error {
	changed := s.gate.DeepCopy()
	changed.OwnerReferences = manifestwork.Gate(bundle, s.addon).OwnerReferences
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
