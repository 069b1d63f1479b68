// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"cmp"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
)

// Completed reports whether OCM has seen the cluster of the add-on run the spec of the desired configuration of a kind with the hash.
func Completed(addOn *addonv1beta1.ManagedClusterAddOn, kind Kind, specHash string) bool {
	resource := GroupResource(kind)
	return slices.ContainsFunc(addOn.Status.ConfigReferences, func(ref addonv1beta1.ConfigReference) bool {
		return ref.ConfigGroupResource == resource && ref.LastAppliedConfig != nil && ref.LastAppliedConfig.SpecHash == specHash
	})
}

// PendingDeployment is an AddOnDeploymentConfig whose present spec the cluster of an add-on has not completed.
type PendingDeployment struct {
	Name types.NamespacedName
	// IsAssigned reports whether OCM wants the present spec for the cluster now. OCM assigns a spec to the clusters in waves.
	IsAssigned bool
}

// FindPendingDeployment returns the pending AddOnDeploymentConfig of an add-on, or nil. presentHash returns the hash of the present spec of an
// AddOnDeploymentConfig; empty when unknown: the spec that OCM wants for the cluster then counts as the present spec.
func FindPendingDeployment(addOn *addonv1beta1.ManagedClusterAddOn, presentHash func(types.NamespacedName) string) *PendingDeployment {
	desired, _ := DesiredOf(addOn, GroupResource(DeploymentConfig{}))
	if desired == nil {
		return nil
	}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	hash := cmp.Or(presentHash(name), desired.SpecHash)
	if hash == "" || Completed(addOn, DeploymentConfig{}, hash) { // OCM has no hash of an AddOnDeploymentConfig that does not exist
		return nil
	}
	return &PendingDeployment{name, hash == desired.SpecHash}
}

// AwaitsTurn reports whether OCM has changed configurations for the cluster of the add-on, which the cluster gets in a later wave: a changed
// spec, or another KnativeServing, KnativeEventing or AddOnDeploymentConfig.
func AwaitsTurn(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	c := apimeta.FindStatusCondition(addOn.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionConfigured)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reasonNotConfigured
}

// reasonNotConfigured is the reason of condition Configured with which OCM's add-on manager marks the clusters of later waves.
const reasonNotConfigured = "ConfigurationsNotConfigured"
