// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Source finds the Install of an add-on on a cluster. A Source is safe for concurrent use.
type Source struct{ *Specs[*render.Install] }

// NewSource returns a Source that reads KnativeServings and KnativeEventings from the listers, and ControllerRevisions from the
// indexer. The indexer needs Indexers.
func NewSource(listers map[api.Component]cache.GenericLister, revisions cache.Indexer) *Source {
	byKind := map[Kind]cache.GenericLister{}
	for component, lister := range listers {
		byKind[component] = lister
	}
	return &Source{NewSpecs(byKind, revisions, decodeInstall)}
}

// decodeInstall decodes a KnativeServing or KnativeEventing with the pin of the version in the annotations.
func decodeInstall(config *unstructured.Unstructured, annotations map[string]string) (*render.Install, error) {
	install, err := render.Decode(config)
	if pin := annotations[api.PinnedVersionAnnotation]; err == nil && install.SpecVersion() == "" && pin != "" {
		install = install.WithVersion(pin)
	}
	return install, err
}

// ConfigOf returns the KnativeServing or KnativeEventing that configures the add-on: the add-on's own, or the default of the
// ClusterManagementAddOn. OCM's add-on manager writes the name to the add-on's status. ok is false until then, and while the hub
// did not give that configuration to the add-on.
func ConfigOf(addon *addonv1beta1.ManagedClusterAddOn) (name types.NamespacedName, ok bool) {
	desired := Desired(addon)
	if desired == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}, true
}

// Desired returns the KnativeServing or KnativeEventing that the add-on should have, with the hash of its spec. Desired returns nil
// until OCM's add-on manager writes the status, and while the hub did not give the configuration in the status.
func Desired(addon *addonv1beta1.ManagedClusterAddOn) *addonv1beta1.ConfigSpecHash {
	desired, _ := DesiredOf(addon, GroupResource(api.Component(addon.Name)))
	return desired
}

// GroupResource returns the resource of a kind as the status of a ManagedClusterAddOn names the resource.
func GroupResource(kind Kind) addonv1beta1.ConfigGroupResource {
	gvr := kind.Resource()
	return addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource}
}

// NotGranted returns the error for a configuration that the hub did not give to the add-on. The message repeats only the name of
// the configuration, which the author of the status knows.
func NotGranted(addon *addonv1beta1.ManagedClusterAddOn, kind string, config *addonv1beta1.ConfigSpecHash) *render.Error {
	return &render.Error{Reason: api.ReasonConfigNotGranted, Message: fmt.Sprintf(
		"the status of add-on %q on cluster %q names %s %q, which the hub did not give to the add-on: the cluster keeps its installation; "+
			"the agent of the cluster may write that status, so name the configuration in spec.configs of the ManagedClusterAddOn, or in the Placement or the defaults of the ClusterManagementAddOn, only if the configuration is meant for this cluster",
		addon.Name, addon.Namespace, kind, boundedName(config.Namespace)+"/"+boundedName(config.Name))}
}

// boundedName cuts a name at the greatest length that Kubernetes allows.
func boundedName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), validation.DNS1123SubdomainMaxLength)], "")
}

// Install returns the add-on's configuration as it was when it had the hash in the add-on's status. Without a hash, Install returns
// the present configuration. An invalid configuration leads to a *render.Error.
func (s *Source) Install(addon *addonv1beta1.ManagedClusterAddOn) (*render.Install, error) {
	component := api.Component(addon.Name)
	desired, refused := DesiredOf(addon, GroupResource(component))
	switch {
	case desired == nil && refused != nil:
		return nil, NotGranted(addon, component.Kind(), refused)
	case desired == nil:
		return nil, &render.Error{Reason: api.FaultConfigPending, Message: fmt.Sprintf(
			"OCM's add-on manager did not resolve yet which %s configures add-on %q on cluster %q; if this stays, see condition Configured "+
				"and whether the ClusterManagementAddOn names a default",
			component.Kind(), addon.Name, addon.Namespace)}
	}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	install, err := s.At(component, name, desired.SpecHash)
	if e := (*render.Error)(nil); errors.As(err, &e) && e.Reason == api.ReasonConfigNotFound {
		return nil, &render.Error{Reason: api.ReasonConfigNotFound, Message: fmt.Sprintf(
			"%s %q, which configures add-on %q on cluster %q, does not exist: create it, or name another one in the configs of the "+
				"ManagedClusterAddOn or ClusterManagementAddOn", component.Kind(), name, addon.Name, addon.Namespace)}
	}
	return install, err
}

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
