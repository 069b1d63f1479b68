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
)

// Deployments reads the AddOnDeploymentConfigs of add-ons, each as it was when it had the hash that OCM refers to: what is
// edited in place reaches a cluster when OCM's rollout does. It is safe for concurrent use.
type Deployments struct {
	lister cache.GenericLister

	mu    sync.Mutex
	known map[types.NamespacedName]*knownDeployment
}

// Deployment is what an AddOnDeploymentConfig says.
type Deployment struct {
	Variables map[string]string
	// Workloads is nil when it says nothing of them.
	Workloads *render.Deployment
}

// knownDeployment is what is known of one AddOnDeploymentConfig.
type knownDeployment struct {
	live *unstructured.Unstructured
	hash string
	// seen are the specs that were used, the latest last.
	seen []seenDeployment
}

type seenDeployment struct {
	hash string
	*Deployment
}

// maxSeen is how many specs of one AddOnDeploymentConfig are remembered: as many as a rollout may be between.
const maxSeen = 10

// NewDeployments reads from the lister.
func NewDeployments(lister cache.GenericLister) *Deployments {
	return &Deployments{lister: lister, known: map[types.NamespacedName]*knownDeployment{}}
}

// DeploymentConfigOf is the AddOnDeploymentConfig that the add-on is to have, with the hash of its spec; nil when there is
// none.
func DeploymentConfigOf(addon *addonv1beta1.ManagedClusterAddOn) *addonv1beta1.ConfigSpecHash {
	for i := range addon.Status.ConfigReferences {
		ref := &addon.Status.ConfigReferences[i]
		if ref.Group == utils.AddOnDeploymentConfigGVR.Group && ref.Resource == utils.AddOnDeploymentConfigGVR.Resource {
			return ref.DesiredConfig
		}
	}
	return nil
}

// Of is what the AddOnDeploymentConfig of the add-on says; nil when it has none.
func (d *Deployments) Of(addon *addonv1beta1.ManagedClusterAddOn) (*Deployment, error) {
	desired := DeploymentConfigOf(addon)
	if desired == nil {
		return nil, nil
	}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	live, err := d.live(name)
	if apierrors.IsNotFound(err) {
		return nil, &render.Error{Reason: api.ReasonConfigNotFound, Message: fmt.Sprintf(
			"AddOnDeploymentConfig %q of add-on %q on cluster %q does not exist: create it, or take it out of the configs of the ManagedClusterAddOn or ClusterManagementAddOn",
			name, addon.Name, addon.Namespace)}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get AddOnDeploymentConfig %q: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known, err := d.see(name, live)
	if err != nil {
		return nil, err
	}
	want := desired.SpecHash
	if want == "" {
		want = known.hash
	}
	for i := range known.seen {
		if known.seen[i].hash == want {
			return known.seen[i].Deployment, nil
		}
	}
	return nil, &render.Error{Reason: api.ReasonRevisionNotFound, Message: fmt.Sprintf(
		"OCM refers to spec hash %.12s of AddOnDeploymentConfig %q, which has another spec by now: cluster %q keeps what it has until OCM's rollout gives it the spec as it is now",
		want, name, addon.Namespace)}
}

func (d *Deployments) live(name types.NamespacedName) (*unstructured.Unstructured, error) {
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

// see brings what is known of an AddOnDeploymentConfig up to what it says now.
func (d *Deployments) see(name types.NamespacedName, live *unstructured.Unstructured) (*knownDeployment, error) {
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
	known.seen = slices.DeleteFunc(known.seen, func(s seenDeployment) bool { return s.hash == hash })
	known.seen = append(known.seen, seenDeployment{hash, deployment})
	known.seen = known.seen[max(0, len(known.seen)-maxSeen):]
	return known, nil
}

// DecodeDeployment is what an AddOnDeploymentConfig says. Its agentInstallNamespace and resourceRequirements say nothing
// about Knative: the resource has fields for both.
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
