// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Granter determines which configurations the hub gives to an add-on, from objects that no managed cluster may write.
type Granter struct {
	Definitions addonlisters.ClusterManagementAddOnLister
	Decisions   clusterlistersv1beta1.PlacementDecisionLister
}

// configKinds lists the kinds of configurations that affect the delivered objects.
func configKinds(component api.Component) []addonv1beta1.ConfigGroupResource {
	return []addonv1beta1.ConfigGroupResource{
		GroupResource(component), GroupResource(DeploymentConfig{}),
	}
}

// Grants returns the sorted list that api.GrantedConfigsAnnotation of the add-on should hold: of the configurations that the status
// names, those that the hub gives to the add-on now or gave before, since a rollout reaches the cluster later. When the status
// names no such configuration of a kind, that kind keeps its record.
func (g *Granter) Grants(addOn *addonv1beta1.ManagedClusterAddOn) ([]string, error) {
	var out []string
	for _, resource := range configKinds(api.Component(addOn.Name)) {
		given, err := g.givenConfigs(addOn, resource)
		if err != nil {
			return nil, err
		}
		recorded, named := GrantsOf(addOn), []string{}
		for _, ref := range addOn.Status.ConfigReferences {
			if ref.ConfigGroupResource != resource || ref.DesiredConfig == nil {
				continue
			}
			if grant := GrantOf(resource, ref.DesiredConfig.ConfigReferent); given.Has(grant) || slices.Contains(recorded, grant) {
				named = append(named, grant)
			}
		}
		if len(named) == 0 {
			kind := resource.Resource + "." + resource.Group + "/"
			named = slices.DeleteFunc(recorded, func(grant string) bool { return !strings.HasPrefix(grant, kind) })
		}
		out = append(out, named...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Awaits reports whether the hub gives the resource, and no other one, to the add-on of a cluster, and the status of the add-on does not
// name the resource yet, because the turn of the cluster has not come.
func (g *Granter) Awaits(addOn *addonv1beta1.ManagedClusterAddOn, name types.NamespacedName) (bool, error) {
	resource, referent := GroupResource(api.Component(addOn.Name)), addonv1beta1.ConfigReferent{Namespace: name.Namespace, Name: name.Name}
	if desired, _ := DesiredOf(addOn, resource); desired != nil && desired.ConfigReferent == referent {
		return false, nil
	}
	given := grantsAmong(addOn.Spec.Configs, resource)
	if given.Len() == 0 {
		definition, err := g.Definitions.Get(addOn.Name)
		if err != nil {
			return false, ignoreMissingDefinition(addOn, err)
		}
		if given, err = g.givenByDefinition(definition, addOn.Namespace, resource); err != nil {
			return false, err
		}
	}
	return given.Len() == 1 && given.Has(GrantOf(resource, referent)), nil
}

// givenByDefinition returns the configurations of a kind that the ClusterManagementAddOn gives to the add-on of a cluster now.
func (g *Granter) givenByDefinition(
	definition *addonv1beta1.ClusterManagementAddOn, cluster string, resource addonv1beta1.ConfigGroupResource,
) (sets.Set[string], error) {
	placement, err := g.lastPlacement(definition, cluster)
	if err != nil {
		return nil, err
	}
	if placement != nil {
		if placed := grantsAmong(placement.Configs, resource); placed.Len() > 0 {
			return placed, nil
		}
	}
	return grantsAmong(definition.Spec.DefaultConfigs, resource), nil
}

// ConfigsOfDefinition returns the resources of the component that a ClusterManagementAddOn gives to add-ons.
func ConfigsOfDefinition(definition *addonv1beta1.ClusterManagementAddOn) []types.NamespacedName {
	var out []types.NamespacedName
	for _, c := range configsOfDefinition(definition) {
		if c.ConfigGroupResource == GroupResource(api.Component(definition.Name)) {
			out = append(out, types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
		}
	}
	return out
}

// ignoreMissingDefinition returns the error of a read of a ClusterManagementAddOn, and nil when the ClusterManagementAddOn does not exist.
func ignoreMissingDefinition(addOn *addonv1beta1.ManagedClusterAddOn, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("cannot get ClusterManagementAddOn %q: %w", addOn.Name, err)
}

// givenConfigs returns the configurations of a kind that the hub gives to the add-on now, with OCM's precedence: spec.configs, then the
// last Placement that selects the cluster, then the defaults.
func (g *Granter) givenConfigs(addOn *addonv1beta1.ManagedClusterAddOn, resource addonv1beta1.ConfigGroupResource) (sets.Set[string], error) {
	if own := grantsAmong(addOn.Spec.Configs, resource); own.Len() > 0 {
		return own, nil
	}
	definition, err := g.Definitions.Get(addOn.Name)
	if err != nil {
		return nil, ignoreMissingDefinition(addOn, err)
	}
	placed, err := g.placedConfigs(definition, addOn.Namespace, resource)
	if err != nil || placed.Len() > 0 {
		return placed, err
	}
	return grantsAmong(definition.Spec.DefaultConfigs, resource), nil
}

// placedConfigs returns the configurations of a kind that the last Placement which selects the cluster gives to the add-on. The list includes
// configurations that all clusters of the Placement completed before: a rollout from one configuration to another may be in progress.
func (g *Granter) placedConfigs(
	definition *addonv1beta1.ClusterManagementAddOn, cluster string, resource addonv1beta1.ConfigGroupResource,
) (sets.Set[string], error) {
	placement, err := g.lastPlacement(definition, cluster)
	if err != nil || placement == nil {
		return nil, err
	}
	out := grantsAmong(placement.Configs, resource)
	for _, progress := range definition.Status.InstallProgressions {
		if progress.PlacementRef == placement.PlacementRef {
			out = out.Union(completedBefore(progress.ConfigReferences, resource))
		}
	}
	return out, nil
}

// lastPlacement returns the last Placement of the ClusterManagementAddOn that selects the cluster; nil without such a Placement. In OCM, a
// later Placement takes the cluster from an earlier Placement, with all configurations.
func (g *Granter) lastPlacement(definition *addonv1beta1.ClusterManagementAddOn, cluster string) (*addonv1beta1.PlacementStrategy, error) {
	if definition.Spec.InstallStrategy.Type != addonv1beta1.AddonInstallStrategyPlacements {
		return nil, nil
	}
	for _, p := range slices.Backward(definition.Spec.InstallStrategy.Placements) {
		selected, err := g.selectsCluster(p.PlacementRef, cluster)
		if err != nil {
			return nil, err
		}
		if selected {
			return &p, nil
		}
	}
	return nil, nil
}

// selectsCluster reports whether decisions of the Placement name the cluster.
func (g *Granter) selectsCluster(placement addonv1beta1.PlacementRef, cluster string) (bool, error) {
	decisions, err := g.Decisions.PlacementDecisions(placement.Namespace).List(
		labels.SelectorFromSet(labels.Set{clusterv1beta1.PlacementLabel: placement.Name}))
	if err != nil {
		return false, fmt.Errorf("cannot list the decisions of Placement \"%s/%s\": %w", placement.Namespace, placement.Name, err)
	}
	return slices.ContainsFunc(decisions, func(d *clusterv1beta1.PlacementDecision) bool {
		return slices.ContainsFunc(d.Status.Decisions, func(c clusterv1beta1.ClusterDecision) bool { return c.ClusterName == cluster })
	}), nil
}

func grantsAmong(configs []addonv1beta1.AddOnConfig, resource addonv1beta1.ConfigGroupResource) sets.Set[string] {
	out := sets.New[string]()
	for _, c := range configs {
		if c.ConfigGroupResource == resource {
			out.Insert(GrantOf(resource, c.ConfigReferent))
		}
	}
	return out
}

// completedBefore returns the configurations that all clusters of a Placement completed, from the status of the
// ClusterManagementAddOn. OCM's add-on manager alone writes that status.
func completedBefore(refs []addonv1beta1.InstallConfigReference, resource addonv1beta1.ConfigGroupResource) sets.Set[string] {
	out := sets.New[string]()
	for _, ref := range refs {
		if ref.ConfigGroupResource == resource && ref.LastKnownGoodConfig != nil && ref.LastKnownGoodConfig.Name != "" {
			out.Insert(GrantOf(resource, ref.LastKnownGoodConfig.ConfigReferent))
		}
	}
	return out
}

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
