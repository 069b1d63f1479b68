// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Deployments reads the AddOnDeploymentConfigs of add-ons, each with the spec that has the hash in the status of the add-on: an edit
// in place reaches a cluster with OCM's rollout. Deployments is safe for concurrent use.
type Deployments struct {
	lister cache.GenericLister

	mu    sync.Mutex
	known map[types.NamespacedName]*knownDeployment
}

// Deployment is a decoded AddOnDeploymentConfig.
type Deployment struct {
	Variables map[string]string
	// Workloads is nil when the AddOnDeploymentConfig does not change workloads.
	Workloads *render.Deployment
}

// knownDeployment holds the latest specs of one AddOnDeploymentConfig.
type knownDeployment struct {
	live *unstructured.Unstructured
	hash string
	// specs are the specs that were used, the latest last.
	specs []hashedDeployment
}

type hashedDeployment struct {
	hash string
	*Deployment
}

// maxKnownSpecs is the number of specs of one AddOnDeploymentConfig in memory: the number of edits that a rollout may lag behind.
const maxKnownSpecs = 10

// NewDeployments returns Deployments that read from the lister.
func NewDeployments(lister cache.GenericLister) *Deployments {
	return &Deployments{lister: lister, known: map[types.NamespacedName]*knownDeployment{}}
}

// DeploymentConfigOf returns the AddOnDeploymentConfig that OCM wants for the add-on, with the hash of the spec; nil when OCM wants
// none.
func DeploymentConfigOf(addon *addonv1beta1.ManagedClusterAddOn) *addonv1beta1.ConfigSpecHash {
	desired, _ := revision.DesiredOf(addon, deploymentConfigs)
	return desired
}

var deploymentConfigs = addonv1beta1.ConfigGroupResource{ //nolint:gochecknoglobals // a constant
	Group: utils.AddOnDeploymentConfigGVR.Group, Resource: utils.AddOnDeploymentConfigGVR.Resource,
}

// Of returns the decoded AddOnDeploymentConfig of the add-on; nil when the add-on has none.
func (d *Deployments) Of(addon *addonv1beta1.ManagedClusterAddOn) (*Deployment, error) {
	desired, refused := revision.DesiredOf(addon, deploymentConfigs)
	switch {
	case desired == nil && refused != nil:
		return nil, revision.NotGranted(addon, "AddOnDeploymentConfig", refused)
	case desired == nil:
		return nil, nil
	}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	live, err := d.getLive(name)
	if apierrors.IsNotFound(err) {
		d.forgetSpecs(name)
		return nil, &render.Error{Reason: api.ReasonConfigNotFound, Message: fmt.Sprintf(
			"AddOnDeploymentConfig %q of add-on %q on cluster %q does not exist: create it, or take it out of the configs of the ManagedClusterAddOn or ClusterManagementAddOn",
			name, addon.Name, addon.Namespace)}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get AddOnDeploymentConfig %q: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known, err := d.rememberSpec(name, live)
	if err != nil {
		return nil, err
	}
	want := desired.SpecHash
	if want == "" {
		want = known.hash
	}
	for i := range known.specs {
		if known.specs[i].hash == want {
			return known.specs[i].Deployment, nil
		}
	}
	return nil, &render.Error{Reason: api.ReasonRevisionNotFound, Message: fmt.Sprintf(
		"OCM refers to spec hash %.12s of AddOnDeploymentConfig %q, which has another spec by now: cluster %q keeps what it has until OCM's rollout gives it the spec as it is now",
		want, name, addon.Namespace)}
}

func (d *Deployments) getLive(name types.NamespacedName) (*unstructured.Unstructured, error) {
	object, err := d.lister.ByNamespace(name.Namespace).Get(name.Name)
	if err != nil {
		return nil, err
	}
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("it is a %T", object)
	}
	return u, nil
}

func (d *Deployments) forgetSpecs(name types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, name)
}

// rememberSpec adds the present spec of an AddOnDeploymentConfig to the known specs.
func (d *Deployments) rememberSpec(name types.NamespacedName, live *unstructured.Unstructured) (*knownDeployment, error) {
	known := d.known[name]
	if known != nil && known.live == live {
		return known, nil
	}
	hash, err := utils.GetSpecHash(live)
	if err != nil {
		return nil, fmt.Errorf("cannot hash the spec of AddOnDeploymentConfig %q: %w", name, err)
	}
	deployment, err := DecodeDeployment(live)
	if err != nil {
		return nil, err
	}
	if known == nil {
		known = &knownDeployment{}
		d.known[name] = known
	}
	known.live, known.hash = live, hash
	known.specs = slices.DeleteFunc(known.specs, func(s hashedDeployment) bool { return s.hash == hash })
	known.specs = append(known.specs, hashedDeployment{hash, deployment})
	known.specs = known.specs[max(0, len(known.specs)-maxKnownSpecs):]
	return known, nil
}

// DecodeDeployment decodes an AddOnDeploymentConfig. The fields agentInstallNamespace and resourceRequirements do not apply to
// Knative: KnativeServing and KnativeEventing have fields for both.
func DecodeDeployment(u *unstructured.Unstructured) (*Deployment, error) {
	var config addonv1beta1.AddOnDeploymentConfig
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &config); err != nil {
		return nil, fmt.Errorf("cannot read AddOnDeploymentConfig \"%s/%s\": %w", u.GetNamespace(), u.GetName(), err)
	}
	out := &Deployment{Variables: map[string]string{}}
	for _, v := range config.Spec.CustomizedVariables {
		out.Variables[v.Name] = v.Value
	}
	proxy := config.Spec.ProxyConfig
	spec := render.DeploymentSpec{
		HTTPProxy: proxy.HTTPProxy, HTTPSProxy: proxy.HTTPSProxy, NoProxy: proxy.NoProxy, CABundle: len(proxy.CABundle) > 0,
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
