// Copyright Contributors to the Open Cluster Management project

package api

import "k8s.io/apimachinery/pkg/runtime/schema"

// Component is one half of Knative; each is an add-on of its own.
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

// AddOnName is the name of the component's ClusterManagementAddOn and ManagedClusterAddOn.
func (c Component) AddOnName() string { return string(c) }

// InstallNamespace is the namespace on the spoke that the component is installed in unless annotation
// InstallNamespaceAnnotation says otherwise.
func (c Component) InstallNamespace() string { return string(c) }

// Kind is the kind of the custom resource that configures the component.
func (c Component) Kind() string {
	if c == Eventing {
		return "KnativeEventing"
	}
	return "KnativeServing"
}

// Resource is the plural resource of the custom resource that configures the component.
func (c Component) Resource() schema.GroupVersionResource {
	r := schema.GroupVersionResource{Group: Group, Version: "v1beta1", Resource: "knativeservings"}
	if c == Eventing {
		r.Resource = "knativeeventings"
	}
	return r
}
