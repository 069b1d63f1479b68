// Copyright Contributors to the Open Cluster Management project

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// own makes the cluster's add-on the resource's where it may, and says in s.target why not where it may not.
func (r *Reconciler) own(ctx context.Context, s *scope) error {
	if s.target.Target == nil || s.target.Target.Mode != resolve.ManifestWork {
		return nil
	}
	name := fmt.Sprintf("add-on %q on cluster %q", r.Component, s.ref.Name)
	refuse := func(reason, format string, args ...any) error {
		s.target = resolve.Result{Reason: reason, Message: fmt.Sprintf(format, args...)}
		return nil
	}
	switch {
	case s.placed():
		return refuse(api.ReasonPlacementManaged,
			"Placements decide which clusters have add-on %q, so that this resource installs nothing on %q; name it in the configs of a Placement of the ClusterManagementAddOn, or set installStrategy.type to Manual there",
			r.Component, s.ref.Name)
	case s.owner.Ownership == target.OfUser:
		return refuse(api.ReasonTargetConflict,
			"%s was enabled by a user and stays as it is; disable it there (clusteradm addon disable --names %s --clusters %s), or delete this resource", name, r.Component, s.ref.Name)
	case s.owner.Ownership == target.OfRival:
		return refuse(api.ReasonTargetConflict,
			"%s belongs to %s %q, which came first; delete one of the two: this one goes on once the other is gone", name, r.Component.Kind(), s.owner.Rival)
	case s.definition == nil, !s.admissible():
		return nil
	case s.owner.Ownership == target.Free:
		return r.enable(ctx, s)
	case s.owner.Ownership == target.Inherited, s.owner.Ownership == target.Ours && !recorded(s):
		return r.takeOver(ctx, s)
	}
	return nil
}

// recorded tells that the add-on says who made it, and that the resource is held until it is gone.
func recorded(s *scope) bool {
	return s.finalized() && s.addOn.Annotations[api.InstalledForAnnotation] == key(s)
}

func key(s *scope) string { return nameOf(s).String() }

func (r *Reconciler) enable(ctx context.Context, s *scope) error {
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return err
	}
	_, err := r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.ref.Name).Create(ctx, &addonv1beta1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.ref.Name, Name: r.Component.AddOnName(),
			Annotations: map[string]string{api.InstalledForAnnotation: key(s)},
		},
		Spec: addonv1beta1.ManagedClusterAddOnSpec{Configs: r.configs(s, nil)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create ManagedClusterAddOn \"%s/%s\": %w", s.ref.Name, r.Component, err)
	}
	return nil
}

// takeOver makes the resource the configuration of an add-on that is there.
func (r *Reconciler) takeOver(ctx context.Context, s *scope) error {
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return err
	}
	return r.patchAddOn(ctx, s, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{api.InstalledForAnnotation: key(s)}},
		"spec":     map[string]any{"configs": r.configs(s, s.addOn.Spec.Configs)},
	})
}

// configs are the configurations of an add-on with the resource among them, in the place of any other of its kind.
func (r *Reconciler) configs(s *scope, have []addonv1beta1.AddOnConfig) []addonv1beta1.AddOnConfig {
	gvr := r.Component.Resource()
	return append(r.otherConfigs(have), addonv1beta1.AddOnConfig{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: s.config.GetNamespace(), Name: s.config.GetName()},
	})
}

func (r *Reconciler) otherConfigs(have []addonv1beta1.AddOnConfig) []addonv1beta1.AddOnConfig {
	gvr := r.Component.Resource()
	return slices.DeleteFunc(slices.Clone(have), func(c addonv1beta1.AddOnConfig) bool {
		return c.Group == gvr.Group && c.Resource == gvr.Resource
	})
}

// patchAddOn merges a patch into the add-on as it was read.
func (r *Reconciler) patchAddOn(ctx context.Context, s *scope, patch map[string]any) error {
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"], metadata["uid"] = s.addOn.ResourceVersion, s.addOn.UID
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("cannot encode a patch of ManagedClusterAddOn %q: %w", s.addOn.Name, err)
	}
	_, err = r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addOn.Namespace).Patch(
		ctx, s.addOn.Name, types.MergePatchType, data, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot patch ManagedClusterAddOn \"%s/%s\": %w", s.addOn.Namespace, s.addOn.Name, err)
	}
	return nil
}
