// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// keepGate closes the gate before the payload of another configuration is delivered, and opens it when the cluster runs that.
// It stays open, whatever becomes of the workloads, until the cluster is to have something else.
func (r *Reconciler) keepGate(ctx context.Context, s *scope, bundle *render.Bundle) error {
	wanted := agentdeploy.ConfigsToMap(s.addon.Status.ConfigReferences)
	switch {
	case s.gate == nil:
		return r.createGate(ctx, work.Gate(bundle, s.addon, wanted))
	case s.gate.DeletionTimestamp != nil:
		return nil // the next one comes when it is gone
	case !s.ownsGate():
		return r.inheritGate(ctx, s, bundle)
	case !work.IsClosed(s.gate) && !maps.Equal(work.ConfigsOf(s.gate), wanted):
		return r.patchGate(ctx, s, "labels", addonv1beta1.AddonLabelKey, s.component.AddOnName())
	case !work.IsClosed(s.gate):
		return nil
	}
	if written, err := r.tellGate(ctx, s); written || err != nil {
		return err
	}
	if !maps.Equal(work.Delivered(s.payloads), wanted) || !work.Runs(bundle, s.foundation, s.payloads) {
		return nil
	}
	if a, err := r.AddOns.ManagedClusterAddOns(s.namespace).Get(s.addon.Name); err != nil || a.ResourceVersion != s.addon.ResourceVersion {
		return client.IgnoreNotFound(err) // it may be to have something else by now, and an event follows
	}
	return r.patchGate(ctx, s, "labels", addonv1beta1.AddonLabelKey, nil)
}

// tellGate has a closed gate speak of what was delivered: OCM reports on the first work that it finds behind, in no order, and
// would say now that the payload is not ready and now that the gate is of another configuration.
func (r *Reconciler) tellGate(ctx context.Context, s *scope) (written bool, err error) {
	delivered := work.Delivered(s.payloads)
	if s.gate == nil || s.gate.DeletionTimestamp != nil || !work.IsClosed(s.gate) || delivered == nil || maps.Equal(work.ConfigsOf(s.gate), delivered) {
		return false, nil
	}
	return true, r.patchGate(ctx, s, "annotations", workv1.ManifestConfigSpecHashAnnotationKey, work.ConfigsText(delivered))
}

func (s *scope) ownsGate() bool {
	return len(s.gate.OwnerReferences) == 1 && s.gate.OwnerReferences[0].UID == s.addon.UID
}

func (r *Reconciler) createGate(ctx context.Context, gate *workv1.ManifestWork) error {
	if _, err := r.WorkClient.WorkV1().ManifestWorks(gate.Namespace).Create(ctx, gate, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot create ManifestWork \"%s/%s\": %w", gate.Namespace, gate.Name, err)
	}
	return nil
}

// inheritGate makes a gate that was handed over the add-on's. It is as open as it was.
func (r *Reconciler) inheritGate(ctx context.Context, s *scope, bundle *render.Bundle) error {
	changed := s.gate.DeepCopy()
	changed.OwnerReferences = work.Gate(bundle, s.addon, nil).OwnerReferences
	if _, err := r.WorkClient.WorkV1().ManifestWorks(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot take over ManifestWork \"%s/%s\": %w", changed.Namespace, changed.Name, err)
	}
	return nil
}

// patchGate sets a label or an annotation, or takes it away when the value is nil. The work agent does nothing then.
func (r *Reconciler) patchGate(ctx context.Context, s *scope, field, key string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		field: map[string]any{key: value}, "resourceVersion": s.gate.ResourceVersion, "uid": s.gate.UID,
	}})
	if err != nil {
		return fmt.Errorf("cannot encode a patch of ManifestWork \"%s/%s\": %w", s.namespace, s.gate.Name, err)
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(s.namespace).Patch(ctx, s.gate.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot patch ManifestWork \"%s/%s\": %w", s.namespace, s.gate.Name, err)
	}
	return nil
}
