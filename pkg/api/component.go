// Copyright Contributors to the Open Cluster Management project

package api

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Component is a half of Knative with an add-on of its own.
type Component string

const (
	// Serving is Knative Serving with its ingress.
	Serving Component = "knative-serving"
	// Eventing is Knative Eventing with its sources.
	Eventing Component = "knative-eventing"
)

// Group is the API group of KnativeServing and KnativeEventing.
const Group = "operator.knative.dev"

// Components lists every component in a stable order.
func Components() []Component { return []Component{Serving, Eventing} }

// ComponentOfAddOn returns the component whose add-on has the name; ok is false for the name of another add-on.
func ComponentOfAddOn(name string) (component Component, ok bool) {
	return Component(name), slices.Contains(Components(), Component(name))
}

// AddOnName returns the name of the component's ClusterManagementAddOn and ManagedClusterAddOn.
func (c Component) AddOnName() string { return string(c) }

// InstallNamespace returns the install namespace of the component on a cluster without InstallNamespaceAnnotation.
func (c Component) InstallNamespace() string { return string(c) }

// Kind returns the kind of the custom resource that configures the component.
func (c Component) Kind() string {
	if c == Eventing {
		return "KnativeEventing"
	}
	return "KnativeServing"
}

// Resource returns the resource of the custom resource that configures the component.
func (c Component) Resource() schema.GroupVersionResource {
	r := schema.GroupVersionResource{Group: Group, Version: "v1beta1", Resource: "knativeservings"}
	if c == Eventing {
		r.Resource = "knativeeventings"
	}
	return r
}

// RevisionLabelValue returns the value of RevisionLabel on the ControllerRevisions with specs of the custom resource.
func (c Component) RevisionLabelValue() string { return string(c) }

// ReservedNamespace reports whether a namespace of a cluster belongs to Kubernetes or to Open Cluster Management, so that
// only a resource of a trusted namespace of the hub may name the namespace in InstallNamespaceAnnotation.
func ReservedNamespace(name string) bool {
	return name == "default" || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "open-cluster-management")
}
