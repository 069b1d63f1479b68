// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// ensureOwnership creates the add-on of the cluster or makes the resource the configuration of the add-on, where the owner of the
// add-on permits that. Otherwise s.resolution becomes the reason.
func (m *ManifestWork) ensureOwnership(ctx context.Context, s *scope) error {
	if s.resolution.Target == nil || s.resolution.Target.Mode != api.ModeManifestWork {
		return nil
	}
	if refusal, refused := m.ownershipConflict(s); refused {
		s.resolution = refusal
		return nil
	}
	switch {
	case s.definition == nil, !s.isDeliverable(), s.awaitsHandover():
		return nil
	case s.owner.Ownership == target.Free:
		return m.createAddOn(ctx, s)
	case s.owner.Ownership == target.Inherited, s.owner.Ownership == target.Ours && !s.isRecorded():
		return m.takeOverAddOn(ctx, s)
	}
	return nil
}

// ownershipConflict returns the reason why the resource may not own the add-on of the cluster.
func (m *ManifestWork) ownershipConflict(s *scope) (refusal resolve.Result, refused bool) {
	addOn := fmt.Sprintf("add-on %q on cluster %q", m.Component, s.ref.Name)
	switch {
	case s.isPlacementManaged():
		return resolve.Result{Reason: api.ReasonPlacementManaged, Message: fmt.Sprintf(
			"Placements decide which clusters have add-on %q, so that this resource installs nothing on %q; name the resource in the configs of a Placement of the ClusterManagementAddOn, or set installStrategy.type of the ClusterManagementAddOn to Manual",
			m.Component, s.ref.Name)}, true
	case s.owner.Ownership == target.OfUser:
		return resolve.Result{Reason: api.ReasonTargetConflict, Message: fmt.Sprintf(
			"%s was enabled by a user and stays unchanged; disable the add-on (clusteradm addon disable --names %s --clusters %s), or delete this resource",
			addOn, m.Component, s.ref.Name)}, true
	case s.owner.Ownership == target.OfOtherResource:
		return resolve.Result{Reason: api.ReasonTargetConflict, Message: fmt.Sprintf(
			"%s belongs to %s %q, which came first; "+target.RemoveOne, addOn, m.Component.Kind(), s.owner.Resource)}, true
	}
	return resolve.Result{}, false
}

func (m *ManifestWork) createAddOn(ctx context.Context, s *scope) error {
	if err := m.ensureFinalizer(ctx, s); err != nil {
		return err
	}
	_, err := m.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.ref.Name).Create(ctx, &addonv1beta1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.ref.Name, Name: m.Component.AddOnName(),
			Annotations: map[string]string{api.InstalledForAnnotation: s.configKey()},
		},
		Spec: addonv1beta1.ManagedClusterAddOnSpec{Configs: m.addOnConfigs(s, nil)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create ManagedClusterAddOn \"%s/%s\": %w", s.ref.Name, m.Component, err)
	}
	return nil
}

// takeOverAddOn makes the resource the configuration of an existing add-on.
func (m *ManifestWork) takeOverAddOn(ctx context.Context, s *scope) error {
	if err := m.ensureFinalizer(ctx, s); err != nil {
		return err
	}
	return m.patchAddOn(ctx, s, func(changed *addonv1beta1.ManagedClusterAddOn) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, api.InstalledForAnnotation, s.configKey())
		changed.Spec.Configs = m.addOnConfigs(s, changed.Spec.Configs)
	})
}

// addOnConfigs returns the configurations of an add-on with the resource in the place of any other configuration of that kind.
func (m *ManifestWork) addOnConfigs(s *scope, have []addonv1beta1.AddOnConfig) []addonv1beta1.AddOnConfig {
	return append(m.otherAddOnConfigs(have), addonv1beta1.AddOnConfig{
		ConfigGroupResource: revision.GroupResource(m.Component),
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: s.Config.GetNamespace(), Name: s.Config.GetName()},
	})
}

// otherAddOnConfigs returns the configurations of other kinds.
func (m *ManifestWork) otherAddOnConfigs(have []addonv1beta1.AddOnConfig) []addonv1beta1.AddOnConfig {
	return slices.DeleteFunc(slices.Clone(have), func(c addonv1beta1.AddOnConfig) bool {
		return c.ConfigGroupResource == revision.GroupResource(m.Component)
	})
}

func (m *ManifestWork) ensureFinalizer(ctx context.Context, s *scope) error {
	if hasFinalizer(m, s.Config) {
		return nil
	}
	changed, err := hub.Patch(ctx, m.ConfigClient.Resource(m.Component.Resource()).Namespace(s.Config.GetNamespace()), s.Config, func(changed *unstructured.Unstructured) {
		controllerutil.AddFinalizer(changed, m.Finalizer())
	})
	if err != nil { // a resource that is gone gets no add-on either
		return err
	}
	s.Config = changed
	return nil
}

// patchAddOn changes the add-on. The patch fails with a conflict when the add-on is not the object of the scope.
func (m *ManifestWork) patchAddOn(ctx context.Context, s *scope, change func(*addonv1beta1.ManagedClusterAddOn)) error {
	_, err := hub.Patch(ctx, m.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addOn.Namespace), s.addOn, change)
	return err
}
