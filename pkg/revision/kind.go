// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/utils"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
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

// Fleet is the Kind of the KnativeFleets. The history holds the templates of a KnativeFleet.
type Fleet struct{}

var _, _, _ Kind = api.Component(""), DeploymentConfig{}, Fleet{}

// Kind returns the kind of the resource.
func (Fleet) Kind() string { return fleetv1alpha1.Kind }

// Resource returns the resource of the KnativeFleets.
func (Fleet) Resource() schema.GroupVersionResource { return fleetv1alpha1.Resource() }

// RevisionLabelValue implements Kind.
func (Fleet) RevisionLabelValue() string { return fleetv1alpha1.Resource().Resource }

// Kind returns the kind of the resource.
func (DeploymentConfig) Kind() string { return "AddOnDeploymentConfig" }

// Resource returns the resource with the API version of addon-framework, which hashes the specs.
func (DeploymentConfig) Resource() schema.GroupVersionResource { return utils.AddOnDeploymentConfigGVR }

// RevisionLabelValue implements Kind.
func (DeploymentConfig) RevisionLabelValue() string { return utils.AddOnDeploymentConfigGVR.Resource }

// Kinds lists every kind with a history in a stable order.
func Kinds() []Kind {
	out := []Kind{DeploymentConfig{}, Fleet{}}
	for _, c := range api.Components() {
		out = append(out, c)
	}
	return out
}

// Live returns a resource of the kind from the cache, or nil. Callers must not change the object.
func Live(lister cache.GenericLister, kind Kind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	object, err := lister.ByNamespace(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get %s %q: %w", kind.Kind(), name, err)
	}
	config, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cannot read %s %q: it is a %T", kind.Kind(), name, object)
	}
	return config, nil
}
