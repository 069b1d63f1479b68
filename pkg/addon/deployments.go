// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Deployments reads the AddOnDeploymentConfigs of add-ons, each with the spec that has the hash in the status of the add-on: an edit
// in place reaches a cluster with OCM's rollout. Deployments is safe for concurrent use.
type Deployments struct {
	specs *revision.Specs[*Deployment]
}

// Deployment is a decoded AddOnDeploymentConfig.
type Deployment struct {
	Variables map[string]string
	// Workloads is nil when the AddOnDeploymentConfig does not change workloads.
	Workloads *render.Deployment
}

// NewDeployments returns Deployments that read AddOnDeploymentConfigs from the lister, and ControllerRevisions from the indexer. The
// indexer needs revision.Indexers.
func NewDeployments(lister cache.GenericLister, revisions cache.Indexer) *Deployments {
	listers := map[revision.Kind]cache.GenericLister{revision.DeploymentConfig{}: lister}
	return &Deployments{specs: revision.NewSpecs(listers, revisions, func(config *unstructured.Unstructured, _ map[string]string) (*Deployment, error) {
		return DecodeDeployment(config)
	})}
}

// DeploymentConfigOf returns the AddOnDeploymentConfig that OCM wants for the add-on, with the hash of the spec; nil when OCM wants
// none.
func DeploymentConfigOf(addon *addonv1beta1.ManagedClusterAddOn) *addonv1beta1.ConfigSpecHash {
	desired, _ := revision.DesiredOf(addon, revision.GroupResource(revision.DeploymentConfig{}))
	return desired
}

// Of returns the decoded AddOnDeploymentConfig of the add-on; nil when the add-on has none.
func (d *Deployments) Of(addon *addonv1beta1.ManagedClusterAddOn) (*Deployment, error) {
	desired, refused := revision.DesiredOf(addon, revision.GroupResource(revision.DeploymentConfig{}))
	switch {
	case desired == nil && refused != nil:
		return nil, revision.NotGranted(addon, "AddOnDeploymentConfig", refused)
	case desired == nil:
		return nil, nil
	}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	deployment, err := d.specs.At(revision.DeploymentConfig{}, name, desired.SpecHash)
	if render.ReasonOf(err) == api.ReasonConfigNotFound {
		return nil, &render.Error{Reason: api.ReasonConfigNotFound, Message: fmt.Sprintf(
			"AddOnDeploymentConfig %q of add-on %q on cluster %q does not exist: create it, or take it out of the configs of the ManagedClusterAddOn or ClusterManagementAddOn",
			name, addon.Name, addon.Namespace)}
	}
	return deployment, err
}

// DecodeDeployment decodes an AddOnDeploymentConfig. The fields agentInstallNamespace and resourceRequirements do not apply to
// Knative: KnativeServing and KnativeEventing have fields for both.
func DecodeDeployment(u *unstructured.Unstructured) (*Deployment, error) {
	var config addonv1beta1.AddOnDeploymentConfig
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &config); err != nil {
		return nil, &render.Error{Reason: api.ReasonInvalidSpec, Err: err, Message: message.Shorten(fmt.Sprintf(
			"cannot read AddOnDeploymentConfig \"%s/%s\"; correct the AddOnDeploymentConfig: %v", u.GetNamespace(), u.GetName(), err), message.MaxNote)}
	}
	out := &Deployment{Variables: map[string]string{}}
	for _, v := range config.Spec.CustomizedVariables {
		out.Variables[v.Name] = v.Value
	}
	proxy := config.Spec.ProxyConfig
	spec := render.DeploymentSpec{
		HTTPProxy: proxy.HTTPProxy, HTTPSProxy: proxy.HTTPSProxy, NoProxy: proxy.NoProxy, CABundle: len(proxy.CABundle) > 0,
		Verification: out.Variables[api.VerificationVariable],
	}
	if p := config.Spec.NodePlacement; p != nil {
		spec.NodeSelector, spec.Tolerations = p.NodeSelector, p.Tolerations
	}
	for _, m := range config.Spec.Registries {
		spec.Mirrors = append(spec.Mirrors, render.Mirror{Source: m.Source, Mirror: m.Mirror})
	}
	out.Workloads = render.NewDeployment(spec)
	return out, nil
}
