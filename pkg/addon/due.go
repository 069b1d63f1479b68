// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
)

// Due tells whether addon-framework has to look at an add-on. It looks at each event, and reads and writes all manifests anew
// to find that nothing has changed, which costs a hundred times what is compared here. Nor is it due while the foundation controller is
// about to write the gate: at an error of Manifests the framework would write into the add-on that its manifests are not applied, and at
// once that they are, just when OCM writes there too.
func (a *Agent) Due(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) bool {
	if addon.DeletionTimestamp != nil || a.pauses.PausedBy(addon) != "" {
		return true
	}
	bundle, foundation, err := a.wanted(ctx, addon)
	if err != nil {
		return !errors.Is(err, errGate)
	}
	payloads, err := a.works.Payloads.ManifestWorks(addon.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: addon.Name}))
	if err != nil {
		return true // it says so
	}
	return !apimeta.IsStatusConditionTrue(addon.Status.Conditions, addonv1beta1.ManagedClusterAddOnManifestApplied) ||
		slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool { return !a.isMadeOf(p, addon) }) || !work.Carry(payloads, bundle, foundation)
}

// isMadeOf tells that a payload, but for its manifests, is as the framework makes it of the add-on, and applied. The repair label is
// ours, and the agent would apply everything once more if it were taken away.
func (a *Agent) isMadeOf(p *workv1.ManifestWork, addon *addonv1beta1.ManagedClusterAddOn) bool {
	ours := maps.Clone(p.Labels)
	delete(ours, api.RepairLabel)
	return p.DeletionTimestamp == nil && apimeta.IsStatusConditionTrue(p.Status.Conditions, workv1.WorkApplied) &&
		maps.Equal(ours, map[string]string{addonv1beta1.AddonLabelKey: addon.Name}) &&
		len(p.Annotations) == 1 && maps.Equal(work.ConfigsOf(p), agentdeploy.ConfigsToMap(addon.Status.ConfigReferences)) &&
		len(p.OwnerReferences) == 1 && metav1.IsControlledBy(p, addon) &&
		p.Spec.DeleteOption == nil && p.Spec.Executor == nil && equality.Semantic.DeepEqual(p.Spec.ManifestConfigs, a.configs)
}

// errGate is that the foundation controller has to write the gate first, which takes it a moment.
var errGate = errors.New("nothing new is delivered yet")

// awaitGate waits until OCM cannot take the cluster for complete before it runs the payload: the gate is closed, or the payload
// is of the configuration that it was opened for.
func (a *Agent) awaitGate(addon *addonv1beta1.ManagedClusterAddOn) error {
	name := work.GateName(a.component)
	gate, err := a.works.Foundations.ManifestWorks(addon.Namespace).Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: waiting for ManifestWork %q to be created", errGate, name)
	case err != nil:
		return fmt.Errorf("cannot get ManifestWork %q: %w", name, err)
	case gate.DeletionTimestamp != nil:
		return fmt.Errorf("%w: waiting for ManifestWork %q to be created anew", errGate, name)
	case !work.IsClosed(gate) && !maps.Equal(work.ConfigsOf(gate), agentdeploy.ConfigsToMap(addon.Status.ConfigReferences)):
		return fmt.Errorf("%w: waiting for ManifestWork %q to have OCM's label", errGate, name)
	}
	return nil
}
