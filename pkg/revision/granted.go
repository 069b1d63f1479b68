// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"slices"
	"strings"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// The status of a ManagedClusterAddOn names the configurations of the cluster, and OCM lets the agent of the cluster write that
// status. Spec and metadata belong to the hub alone. Therefore the status selects among the configurations that the hub gave to the
// add-on, and adds no configuration.

// GrantOf returns the name of a configuration in api.GrantedConfigsAnnotation.
func GrantOf(resource addonv1beta1.ConfigGroupResource, config addonv1beta1.ConfigReferent) string {
	return resource.Resource + "." + resource.Group + "/" + config.Namespace + "/" + config.Name
}

// GrantsOf returns the configurations that the hub recorded as given to the add-on, besides those of spec.configs.
func GrantsOf(addOn *addonv1beta1.ManagedClusterAddOn) []string {
	if addOn.Annotations[api.GrantedConfigsAnnotation] == "" {
		return nil
	}
	return strings.Split(addOn.Annotations[api.GrantedConfigsAnnotation], ",")
}

// Granted reports whether the hub gave the configuration to the add-on.
func Granted(addOn *addonv1beta1.ManagedClusterAddOn, resource addonv1beta1.ConfigGroupResource, config addonv1beta1.ConfigReferent) bool {
	own := addonv1beta1.AddOnConfig{ConfigGroupResource: resource, ConfigReferent: config}
	return slices.Contains(addOn.Spec.Configs, own) || slices.Contains(GrantsOf(addOn), GrantOf(resource, config))
}

// DesiredOf returns the configuration of a resource that the add-on should have: the first in the status that the hub gave to the
// add-on, or nil. When desired is nil, refused is the first that the hub did not give, or nil when the status names none.
func DesiredOf(
	addOn *addonv1beta1.ManagedClusterAddOn, resource addonv1beta1.ConfigGroupResource,
) (desired, refused *addonv1beta1.ConfigSpecHash) {
	for i := range addOn.Status.ConfigReferences {
		ref := &addOn.Status.ConfigReferences[i]
		switch {
		case ref.ConfigGroupResource != resource || ref.DesiredConfig == nil:
		case Granted(addOn, resource, ref.DesiredConfig.ConfigReferent):
			return ref.DesiredConfig, nil
		case refused == nil:
			refused = ref.DesiredConfig
		}
	}
	return nil, refused
}
