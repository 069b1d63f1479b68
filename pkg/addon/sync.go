// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// NeedsSync reports whether addon-framework has to sync an add-on. The framework syncs at each event, and reads and writes all
// manifests even if no manifest has changed, which costs a hundred times the comparison here. An error of Manifests makes the
// framework write a failure into the status of the add-on and into the log of the manager. Such a state is usually a wait, and the
// add-on's controller reports the state with the object and the cause. An add-on therefore needs a sync only when the framework has a
// payload to write. A removal needs none: the add-ons have no hooks. An add-on without the finalizer gets no payload: Kubernetes would delete the
// payload with the add-on, outside of the sequence of a removal.
func (a *Agent) NeedsSync(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) bool {
	if addon.DeletionTimestamp != nil || !slices.Contains(addon.Finalizers, api.FoundationFinalizer) {
		return false
	}
	in, err := a.gatherDelivery(ctx, addon)
	if err != nil {
		return true // the sync reports the error
	}
	switch decision := DetermineDelivery(in); decision.State {
	case Paused:
		_, err := a.pausedManifests(addon, in.PausedBy)
		return err == nil && a.hasOutdatedPayload(addon)
	case AwaitingTurn: // a hand-over changes only the owner
		return slices.ContainsFunc(in.Payloads, func(p *workv1.ManifestWork) bool { return !metav1.IsControlledBy(p, addon) })
	case Deliverable:
		return a.hasPendingChanges(addon, in)
	default:
		return false
	}
}

// hasPendingChanges reports whether the framework would write other payloads than the hub has.
func (a *Agent) hasPendingChanges(addon *addonv1beta1.ManagedClusterAddOn, in DeliveryInput) bool {
	payloads, err := a.listWorks(addon)
	return err != nil || a.hasOutdatedPayload(addon) || !manifestwork.MatchNextPayload(payloads, in.Bundle, in.Foundation)
}

// hasOutdatedPayload reports whether a payload, apart from its manifests, differs from the payload that the framework builds.
func (a *Agent) hasOutdatedPayload(addon *addonv1beta1.ManagedClusterAddOn) bool {
	payloads, err := a.listWorks(addon)
	return err != nil || slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool { return !a.isCurrentPayload(p, addon) })
}

// listWorks returns the works that the framework wrote for the add-on, including works that are being deleted. The sync reports the
// error.
func (a *Agent) listWorks(addon *addonv1beta1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	return a.works.Payloads.ManifestWorks(addon.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: addon.Name}))
}

// isCurrentPayload reports whether the payload, apart from its manifests, is equal to the payload that the framework builds for the
// add-on. The repair label belongs to this project: without the exception the framework would remove the label, and
// the agent would apply everything once more.
func (a *Agent) isCurrentPayload(p *workv1.ManifestWork, addon *addonv1beta1.ManagedClusterAddOn) bool {
	ours := maps.Clone(p.Labels)
	delete(ours, api.RepairLabel)
	return p.DeletionTimestamp == nil && maps.Equal(ours, map[string]string{addonv1beta1.AddonLabelKey: addon.Name}) &&
		len(p.Annotations) == 1 && maps.Equal(manifestwork.ConfigsOf(p), agentdeploy.ConfigsToMap(addon.Status.ConfigReferences)) &&
		len(p.OwnerReferences) == 1 && metav1.IsControlledBy(p, addon) &&
		p.Spec.DeleteOption == nil && !manifestwork.LacksExecutor(p, a.works.Executor) && equality.Semantic.DeepEqual(p.Spec.ManifestConfigs, a.configs)
}
