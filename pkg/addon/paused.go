// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// pausedManifests returns the manifests that the payloads of a paused add-on carry. A changed configuration of the add-on is an
// error: the framework would mark the works with the new configuration, and OCM would take the rollout for complete.
func (a *Agent) pausedManifests(addon *addonv1beta1.ManagedClusterAddOn, by string) ([]runtime.Object, error) {
	payloads, err := listPayloads(a.works.Payloads, addon)
	if err != nil {
		return nil, err
	}
	if len(payloads) == 0 {
		return nil, fmt.Errorf("paused by %s: nothing is delivered to cluster %q; remove the annotation to continue", by, addon.Namespace)
	}
	want := agentdeploy.ConfigsToMap(addon.Status.ConfigReferences)
	for _, p := range payloads {
		if !maps.Equal(manifestwork.ConfigsOf(p), want) {
			return nil, fmt.Errorf("paused by %s: cluster %q keeps its installation instead of the new configuration; remove the annotation to continue", by, addon.Namespace)
		}
	}
	return deliveredManifests(payloads)
}

// deliveredManifests returns the manifests that the payloads carry.
func deliveredManifests(payloads []*workv1.ManifestWork) ([]runtime.Object, error) {
	var out []runtime.Object
	for _, p := range payloads {
		for _, m := range p.Spec.Workload.Manifests {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(m.Raw); err != nil {
				return nil, fmt.Errorf("cannot read ManifestWork \"%s/%s\": %w", p.Namespace, p.Name, err)
			}
			out = append(out, u)
		}
	}
	if len(out) == 0 { // an empty list would delete the works
		return nil, errors.New("the works of the add-on have no manifests")
	}
	return out, nil
}

// listPayloads returns the works that the framework wrote for the add-on, sorted by name and without works that are being deleted.
func listPayloads(works worklisters.ManifestWorkLister, addon *addonv1beta1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	out, err := works.ManifestWorks(addon.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: addon.Name}))
	if err != nil {
		return nil, fmt.Errorf("cannot list the works of add-on %q on cluster %q: %w", addon.Name, addon.Namespace, err)
	}
	out = slices.DeleteFunc(out, func(w *workv1.ManifestWork) bool { return w.DeletionTimestamp != nil })
	slices.SortFunc(out, func(a, b *workv1.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// deliveredConfig returns the KnativeServing or KnativeEventing that all payloads were rendered from; ok is false when the payloads
// name different configurations.
func deliveredConfig(component api.Component, payloads []*workv1.ManifestWork) (name types.NamespacedName, hash string, ok bool) {
	prefix := component.Resource().GroupResource().String() + "/"
	for i, p := range payloads {
		for config, of := range manifestwork.ConfigsOf(p) {
			id, ours := strings.CutPrefix(config, prefix)
			if !ours {
				continue
			}
			namespace, resource, _ := strings.Cut(id, "/")
			if i > 0 && (of != hash || name.Name != resource || name.Namespace != namespace) {
				return types.NamespacedName{}, "", false
			}
			name, hash = types.NamespacedName{Namespace: namespace, Name: resource}, of
		}
	}
	return name, hash, hash != ""
}
