// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Paused tells whether the annotations are of something that is paused.
func Paused(annotations map[string]string) bool { return annotations[api.PausedAnnotation] == "true" }

// PausedBy says, for messages, what keeps the add-on's cluster as it is; it is empty when nothing does.
func (s *Source) PausedBy(addon *addonv1beta1.ManagedClusterAddOn) string {
	if Paused(addon.Annotations) {
		return fmt.Sprintf("annotation %s of ManagedClusterAddOn \"%s/%s\"", api.PausedAnnotation, addon.Namespace, addon.Name)
	}
	component := api.Component(addon.Name)
	name, ok := ConfigOf(addon)
	if !ok {
		return ""
	}
	config, err := s.live(component, name)
	if err != nil || config == nil { // a resource that cannot be read changes nothing either
		return ""
	}
	return PausedByResource(component, config)
}

// Adopts tells that the add-on is to take over what its cluster has of somebody else.
func (s *Source) Adopts(addon *addonv1beta1.ManagedClusterAddOn) bool {
	if addon.Annotations[api.AdoptAnnotation] == "true" {
		return true
	}
	name, ok := ConfigOf(addon)
	if !ok {
		return false
	}
	config, err := s.live(api.Component(addon.Name), name)
	return err == nil && config != nil && config.GetAnnotations()[api.AdoptAnnotation] == "true"
}

// PausedByResource says it of a cluster that the resource itself is installed on.
func PausedByResource(component api.Component, config metav1.Object) string {
	if !Paused(config.GetAnnotations()) {
		return ""
	}
	name := types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
	return fmt.Sprintf("annotation %s of %s %q", api.PausedAnnotation, component.Kind(), name)
}
