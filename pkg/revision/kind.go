// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/addon-framework/pkg/utils"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Kind is a kind of configurations with a history of specs. An api.Component is the Kind of the KnativeServings or KnativeEventings.
type Kind interface {
	Kind() string
	Resource() schema.GroupVersionResource
	// RevisionLabelValue returns the value of api.RevisionLabel on the ControllerRevisions of the kind.
	RevisionLabelValue() string
}

// DeploymentConfig is the Kind of the AddOnDeploymentConfigs.
type DeploymentConfig struct{}

var _, _ Kind = api.Component(""), DeploymentConfig{}

// Kind returns the kind of the resource.
func (DeploymentConfig) Kind() string { return "AddOnDeploymentConfig" }

// Resource returns the resource with the API version of addon-framework, which hashes the specs.
func (DeploymentConfig) Resource() schema.GroupVersionResource { return utils.AddOnDeploymentConfigGVR }

// RevisionLabelValue implements Kind.
func (DeploymentConfig) RevisionLabelValue() string { return utils.AddOnDeploymentConfigGVR.Resource }

// Kinds lists every kind with a history in a stable order.
func Kinds() []Kind {
	out := []Kind{DeploymentConfig{}}
	for _, c := range api.Components() {
		out = append(out, c)
	}
	return out
}
