// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Paused reports whether the annotations pause their object.
func Paused(annotations map[string]string) bool { return annotations[api.PausedAnnotation] == "true" }

// PausedBy returns a text for messages that names the annotation which pauses the add-on, or "" when the add-on is not paused.
func (s *Source) PausedBy(addon *addonv1beta1.ManagedClusterAddOn) string {
	if Paused(addon.Annotations) {
		return fmt.Sprintf("annotation %s of ManagedClusterAddOn \"%s/%s\"", api.PausedAnnotation, addon.Namespace, addon.Name)
	}
	component := api.Component(addon.Name)
	name, ok := ConfigOf(addon)
	if !ok {
		return ""
	}
	config, err := s.findLive(component, name)
	if err != nil || config == nil { // a resource that cannot be read pauses no add-on
		return ""
	}
	return PausedByResource(component, config)
}

// PausedByResource returns the text of PausedBy for a resource that installs on a cluster without an add-on.
func PausedByResource(component api.Component, config metav1.Object) string {
	if !Paused(config.GetAnnotations()) {
		return ""
	}
	name := types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
	return fmt.Sprintf("annotation %s of %s %q", api.PausedAnnotation, component.Kind(), name)
}
