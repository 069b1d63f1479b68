// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	// ReasonConfigPending means that OCM's add-on manager has not resolved the add-on's configuration yet.
	ReasonConfigPending render.Reason = api.FaultConfigPending
	// ReasonConfigNotFound means that the object that configures the add-on does not exist.
	ReasonConfigNotFound render.Reason = api.ReasonConfigNotFound
	// ReasonRevisionNotFound means that the add-on is to have a spec that nobody has recorded.
	ReasonRevisionNotFound render.Reason = api.ReasonRevisionNotFound
)

// Source finds the Install of an add-on on a cluster. It is safe for concurrent use.
type Source struct {
	listers   map[api.Component]cache.GenericLister
	revisions cache.Indexer

	mu    sync.Mutex
	known map[key]*known
}

type key struct {
	component api.Component
	name      types.NamespacedName
}

// known is what is known of one resource.
type known struct {
	// live is the resource as it was last seen, and hash that of its spec: a status that changes makes another object.
	live *unstructured.Unstructured
	hash string
	// decoded are specs by their hashes.
	decoded map[string]decoded
}

// decoded is what was decoded of one spec, with what decides besides it what is rendered.
type decoded struct {
	annotations map[string]string
	install     *render.Install
	err         error
}

// NewSource reads KnativeServings and KnativeEventings from the listers, and ControllerRevisions from the indexer, which
// has Indexers.
func NewSource(listers map[api.Component]cache.GenericLister, revisions cache.Indexer) *Source {
	return &Source{listers: listers, revisions: revisions, known: map[key]*known{}}
}

// ConfigOf is the KnativeServing or KnativeEventing that configures the add-on: its own, or the default of the
// ClusterManagementAddOn, as OCM's add-on manager has written it to the add-on's status. ok is false as long as it has
// not.
func ConfigOf(addon *addonv1beta1.ManagedClusterAddOn) (name types.NamespacedName, ok bool) {
	desired := Desired(addon)
	if desired == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}, true
}

// Desired is the KnativeServing or KnativeEventing that the add-on is to have, with the hash of its spec; nil as long as
// OCM's add-on manager has not said.
func Desired(addon *addonv1beta1.ManagedClusterAddOn) *addonv1beta1.ConfigSpecHash {
	gvr := api.Component(addon.Name).Resource()
	for _, ref := range addon.Status.ConfigReferences {
		if ref.Group == gvr.Group && ref.Resource == gvr.Resource && ref.DesiredConfig != nil {
			return ref.DesiredConfig
		}
	}
	return nil
}

// Install is what the add-on's configuration asks for, as it was when it had the hash that the add-on's status names.
// Without a hash, it is what the configuration asks for now. Its errors are *render.Error where the configuration is wrong.
func (s *Source) Install(addon *addonv1beta1.ManagedClusterAddOn) (*render.Install, error) {
	component := api.Component(addon.Name)
	desired := Desired(addon)
	if desired == nil {
		return nil, &render.Error{Reason: ReasonConfigPending, Message: fmt.Sprintf(
			"OCM's add-on manager has not said yet which %s configures add-on %q on cluster %q; if this stays, see condition Configured "+
				"and whether the ClusterManagementAddOn names a default",
			component.Kind(), addon.Name, addon.Namespace)}
	}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	install, err := s.InstallAt(component, name, desired.SpecHash)
	if e := (*render.Error)(nil); errors.As(err, &e) && e.Reason == ReasonConfigNotFound {
		return nil, &render.Error{Reason: ReasonConfigNotFound, Message: fmt.Sprintf(
			"%s %q, which configures add-on %q on cluster %q, does not exist: create it, or name another one in the configs of the "+
				"ManagedClusterAddOn or ClusterManagementAddOn", component.Kind(), name, addon.Name, addon.Namespace)}
	}
	return install, err
}

// InstallOf is what a KnativeServing or KnativeEventing asks for now. Its errors are *render.Error where the resource is
// wrong.
func (s *Source) InstallOf(component api.Component, name types.NamespacedName) (*render.Install, error) {
	return s.InstallAt(component, name, "")
}

// InstallAt is what a KnativeServing or KnativeEventing asked for when its spec had the hash; the empty hash is that of the
// spec as it is now.
func (s *Source) InstallAt(component api.Component, name types.NamespacedName, hash string) (*render.Install, error) {
	live, err := s.live(component, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{component, name}
	if live == nil {
		delete(s.known, k)
		return nil, &render.Error{Reason: ReasonConfigNotFound, Message: fmt.Sprintf("%s %q does not exist", component.Kind(), name)}
	}
	state, err := s.see(k, live)
	if err != nil {
		return nil, err
	}
	recorded, err := s.recorded(k, cmp.Or(hash, state.hash))
	if err != nil {
		return nil, err
	}
	switch {
	case hash == "" || hash == state.hash:
		return state.decode(state.hash, liveAnnotations(live, recorded), func() (*unstructured.Unstructured, error) { return live, nil })
	case recorded == nil:
		delete(state.decoded, hash)
		return nil, notFound(component, name, hash)
	}
	return state.decode(hash, Annotations(recorded.Annotations), func() (*unstructured.Unstructured, error) { return Restore(recorded) })
}

// liveAnnotations are those of the resource. A version that is not pinned yet is about to be: until then it stays what the
// same spec was pinned to before.
func liveAnnotations(live *unstructured.Unstructured, recorded *appsv1.ControllerRevision) map[string]string {
	out := Annotations(live.GetAnnotations())
	if recorded == nil || out[api.PinnedVersionAnnotation] != "" {
		return out
	}
	if pin := recorded.Annotations[api.PinnedVersionAnnotation]; pin != "" {
		out[api.PinnedVersionAnnotation] = pin
	}
	return out
}

func notFound(component api.Component, name types.NamespacedName, hash string) error {
	return &render.Error{Reason: ReasonRevisionNotFound, Message: fmt.Sprintf(
		"OCM refers to spec hash %.12s of %s %q, which has another spec by now, and no ControllerRevision of namespace %q holds that one: the cluster keeps what it has until OCM's rollout gives it the spec as it is now; to have the other one, apply it again",
		hash, component.Kind(), name, name.Namespace)}
}

// live is the resource as it is now, nil when there is none.
func (s *Source) live(component api.Component, name types.NamespacedName) (*unstructured.Unstructured, error) {
	lister, ok := s.listers[component]
	if !ok {
		return nil, fmt.Errorf("cannot configure add-on %q: it is none of ours", component)
	}
	return Live(lister, component, name)
}

// recorded is the revision with the hash, nil when there is none.
func (s *Source) recorded(k key, hash string) (*appsv1.ControllerRevision, error) {
	o, exists, err := s.revisions.GetByKey(k.name.Namespace + "/" + Name(k.component, k.name.Name, hash))
	if err != nil || !exists {
		return nil, err
	}
	r, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil, fmt.Errorf("cannot read a revision of %s %q: it is a %T", k.component.Kind(), k.name, o)
	}
	if HashOf(r) != hash { // somebody has changed it, and it proves nothing any more
		return nil, nil
	}
	return r, nil
}

// see brings what is known of a resource up to what it says now. What nobody can ask for any more is forgotten.
func (s *Source) see(k key, live *unstructured.Unstructured) (*known, error) {
	have, ok := s.known[k]
	if ok && have.live == live {
		return have, nil
	}
	hash, err := Hash(live)
	if err != nil {
		return nil, err
	}
	if !ok {
		have = &known{decoded: map[string]decoded{}}
		s.known[k] = have
	}
	changed := have.hash != hash
	have.live, have.hash = live, hash
	if !changed {
		return have, nil
	}
	for old := range have.decoded {
		if r, err := s.recorded(k, old); old != hash && err == nil && r == nil {
			delete(have.decoded, old)
		}
	}
	return have, nil
}

// decode is what the spec with the hash asks for. config is called only for what is not known yet.
func (k *known) decode(hash string, annotations map[string]string, config func() (*unstructured.Unstructured, error)) (*render.Install, error) {
	if d, ok := k.decoded[hash]; ok && maps.Equal(d.annotations, annotations) {
		return d.install, d.err
	}
	u, err := config()
	if err != nil {
		return nil, err
	}
	install, err := render.Decode(u)
	if pin := annotations[api.PinnedVersionAnnotation]; err == nil && install.SpecVersion() == "" && pin != "" {
		install = install.WithVersion(pin)
	}
	k.decoded[hash] = decoded{annotations: annotations, install: install, err: err}
	return install, err
}
