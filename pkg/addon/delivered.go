// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"slices"
	"strings"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
)

// WithConfigs returns the add-on as if OCM wanted the given configurations. configs has the form of agentdeploy.ConfigsToMap: keys are
// <resource>.<group>/<namespace>/<name>, and values are hashes. WithConfigs returns nil for a key of another form.
func WithConfigs(addon *addonv1beta1.ManagedClusterAddOn, configs map[string]string) *addonv1beta1.ManagedClusterAddOn {
	out := addon.DeepCopy()
	out.Status.ConfigReferences = nil
	for name, hash := range configs {
		parts := strings.Split(name, "/")
		if len(parts) != 3 {
			return nil
		}
		resource, group, _ := strings.Cut(parts[0], ".")
		out.Status.ConfigReferences = append(out.Status.ConfigReferences, addonv1beta1.ConfigReference{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: group, Resource: resource},
			DesiredConfig: &addonv1beta1.ConfigSpecHash{
				ConfigReferent: addonv1beta1.ConfigReferent{Namespace: parts[1], Name: parts[2]}, SpecHash: hash,
			},
		})
	}
	slices.SortFunc(out.Status.ConfigReferences, func(a, b addonv1beta1.ConfigReference) int {
		return strings.Compare(a.Group+a.Resource+a.DesiredConfig.Namespace+a.DesiredConfig.Name, b.Group+b.Resource+b.DesiredConfig.Namespace+b.DesiredConfig.Name)
	})
	return out
}
