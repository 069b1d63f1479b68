// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Source finds the Install of an add-on on a cluster. It is safe for concurrent use.
type Source struct {
	listers map[api.Component]cache.GenericLister

	mu      sync.Mutex
	decoded map[key]decoded
}

type key struct {
	component api.Component
	name      types.NamespacedName
}

// decoded is what was decoded of one generation; a status that changes does not make another.
type decoded struct {
	uid         types.UID
	generation  int64
	annotations map[string]string
	install     *render.Install
	err         error
}

func (d *decoded) of(u *unstructured.Unstructured) bool {
	return d.uid == u.GetUID() && d.generation == u.GetGeneration() && maps.Equal(d.annotations, u.GetAnnotations())
}

// NewSource reads KnativeServings and KnativeEventings from the listers.
func NewSource(listers map[api.Component]cache.GenericLister) *Source {
	return &Source{listers: listers, decoded: map[key]decoded{}}
}

// ConfigOf is the KnativeServing or KnativeEventing that configures the add-on: its own, or the default of the
// ClusterManagementAddOn, as OCM's add-on manager has written it to the add-on's status. ok is false as long as it has
// not.
func ConfigOf(addon *addonv1beta1.ManagedClusterAddOn) (name types.NamespacedName, ok bool) {
	gvr := api.Component(addon.Name).Resource()
	for _, ref := range addon.Status.ConfigReferences {
		if ref.Group == gvr.Group && ref.Resource == gvr.Resource && ref.DesiredConfig != nil {
			return types.NamespacedName{Namespace: ref.DesiredConfig.Namespace, Name: ref.DesiredConfig.Name}, true
		}
	}
	return types.NamespacedName{}, false
}

// Install is what the add-on's configuration asks for. Its errors are *render.Error where the configuration is wrong.
func (s *Source) Install(addon *addonv1beta1.ManagedClusterAddOn) (*render.Install, error) {
	component := api.Component(addon.Name)
	name, ok := ConfigOf(addon)
	if !ok {
		return nil, &render.Error{Reason: ReasonConfigPending, Message: fmt.Sprintf(
			"OCM's add-on manager has not said yet which %s configures add-on %q on cluster %q; if this stays, see condition Configured "+
				"and whether the ClusterManagementAddOn names a default",
			component.Kind(), addon.Name, addon.Namespace)}
	}
	install, err := s.InstallOf(component, name)
	if e := (*render.Error)(nil); errors.As(err, &e) && e.Reason == ReasonConfigNotFound {
		return nil, &render.Error{Reason: ReasonConfigNotFound, Message: fmt.Sprintf(
			"%s %q, which configures add-on %q on cluster %q, does not exist: create it, or name another one in the configs of the "+
				"ManagedClusterAddOn or ClusterManagementAddOn", component.Kind(), name, addon.Name, addon.Namespace)}
	}
	return install, err
}

// InstallOf is what a KnativeServing or KnativeEventing asks for. Its errors are *render.Error where the resource is wrong.
func (s *Source) InstallOf(component api.Component, name types.NamespacedName) (*render.Install, error) {
	lister, ok := s.listers[component]
	if !ok {
		return nil, fmt.Errorf("cannot configure add-on %q: it is none of ours", component)
	}
	object, err := lister.ByNamespace(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		s.forget(key{component, name})
		return nil, &render.Error{Reason: ReasonConfigNotFound, Message: fmt.Sprintf("%s %q does not exist", component.Kind(), name)}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get %s %q: %w", component.Kind(), name, err)
	}
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cannot read %s %q: it is a %T", component.Kind(), name, object)
	}
	return s.decode(key{component, name}, u)
}

const (
	// ReasonConfigPending means that OCM's add-on manager has not resolved the add-on's configuration yet.
	ReasonConfigPending render.Reason = api.FaultConfigPending
	// ReasonConfigNotFound means that the object that configures the add-on does not exist.
	ReasonConfigNotFound render.Reason = api.ReasonConfigNotFound
)

func (s *Source) decode(k key, u *unstructured.Unstructured) (*render.Install, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.decoded[k]; ok && d.of(u) {
		return d.install, d.err
	}
	install, err := render.Decode(u)
	if pin := u.GetAnnotations()[api.PinnedVersionAnnotation]; err == nil && install.SpecVersion() == "" && pin != "" {
		install = install.WithVersion(pin)
	}
	s.decoded[k] = decoded{uid: u.GetUID(), generation: u.GetGeneration(), annotations: u.GetAnnotations(), install: install, err: err}
	return install, err
}

func (s *Source) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.decoded, k)
}
