// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	// ReasonConfigPending means that OCM's add-on manager did not resolve the add-on's configuration yet.
	ReasonConfigPending render.Reason = api.FaultConfigPending
	// ReasonConfigNotFound means that the object that configures the add-on does not exist.
	ReasonConfigNotFound render.Reason = api.ReasonConfigNotFound
	// ReasonConfigNotGranted means that the status of the add-on names a configuration that the hub did not give to the add-on.
	ReasonConfigNotGranted render.Reason = api.ReasonConfigNotGranted
	// ReasonRevisionNotFound means that no revision holds the spec that the add-on should have.
	ReasonRevisionNotFound render.Reason = api.ReasonRevisionNotFound
)

// minStates is the number of resources below which no state is dropped.
const minStates = 64

// Source finds the Install of an add-on on a cluster. A Source is safe for concurrent use.
type Source struct {
	listers   map[api.Component]cache.GenericLister
	revisions cache.Indexer

	mu     sync.Mutex
	states map[resourceKey]*resourceState
	// checkAt is the number of states at which the states of deleted resources are dropped.
	checkAt int
}

type resourceKey struct {
	component api.Component
	name      types.NamespacedName
}

// resourceState holds the decoded specs of one resource.
type resourceState struct {
	// live is the resource as the latest call read it, and hash the hash of its spec: a change of the status makes another object.
	live *unstructured.Unstructured
	hash string
	// decoded has the specs by hash.
	decoded map[string]decodedSpec
}

// decodedSpec is a decoded spec with the annotations that affect rendering.
type decodedSpec struct {
	annotations map[string]string
	install     *render.Install
	err         error
}

// NewSource returns a Source that reads KnativeServings and KnativeEventings from the listers, and ControllerRevisions from the
// indexer. The indexer needs Indexers.
func NewSource(listers map[api.Component]cache.GenericLister, revisions cache.Indexer) *Source {
	return &Source{listers: listers, revisions: revisions, states: map[resourceKey]*resourceState{}, checkAt: minStates}
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
	desired, _ := DesiredOf(addon, groupResource(api.Component(addon.Name)))
	return desired
}

// Completed reports whether OCM has seen the cluster of the add-on run the spec of the desired configuration with the hash.
func Completed(addon *addonv1beta1.ManagedClusterAddOn, specHash string) bool {
	resource := groupResource(api.Component(addon.Name))
	return slices.ContainsFunc(addon.Status.ConfigReferences, func(ref addonv1beta1.ConfigReference) bool {
		return ref.ConfigGroupResource == resource && ref.LastAppliedConfig != nil && ref.LastAppliedConfig.SpecHash == specHash
	})
}

func groupResource(component api.Component) addonv1beta1.ConfigGroupResource {
	gvr := component.Resource()
	return addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource}
}

// NotGranted returns the error for a configuration that the hub did not give to the add-on. The message repeats only the name of
// the configuration, which the author of the status knows.
func NotGranted(addon *addonv1beta1.ManagedClusterAddOn, kind string, config *addonv1beta1.ConfigSpecHash) *render.Error {
	return &render.Error{Reason: ReasonConfigNotGranted, Message: fmt.Sprintf(
		"the status of add-on %q on cluster %q names %s %q, which the hub did not give to the add-on: the cluster keeps what it has; "+
			"the agent of the cluster may write that status, so name the configuration in spec.configs of the ManagedClusterAddOn, or in the Placement or the defaults of the ClusterManagementAddOn, only if it is meant for this cluster",
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
	desired, refused := DesiredOf(addon, groupResource(component))
	switch {
	case desired == nil && refused != nil:
		return nil, NotGranted(addon, component.Kind(), refused)
	case desired == nil:
		return nil, &render.Error{Reason: ReasonConfigPending, Message: fmt.Sprintf(
			"OCM's add-on manager did not resolve yet which %s configures add-on %q on cluster %q; if this stays, see condition Configured "+
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

// InstallOf returns the present configuration in a KnativeServing or KnativeEventing. An invalid resource leads to a *render.Error.
func (s *Source) InstallOf(component api.Component, name types.NamespacedName) (*render.Install, error) {
	return s.InstallAt(component, name, "")
}

// InstallAt returns the configuration in a KnativeServing or KnativeEventing at the time when its spec had the hash. The empty hash
// stands for the present spec.
func (s *Source) InstallAt(component api.Component, name types.NamespacedName, hash string) (*render.Install, error) {
	live, err := s.findLive(component, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := resourceKey{component, name}
	if live == nil {
		delete(s.states, k)
		return nil, &render.Error{Reason: ReasonConfigNotFound, Message: fmt.Sprintf("%s %q does not exist", component.Kind(), name)}
	}
	state, err := s.updateState(k, live)
	if err != nil {
		return nil, err
	}
	recorded, err := s.findRecorded(k, cmp.Or(hash, state.hash))
	if err != nil {
		return nil, err
	}
	switch {
	case hash == "" || hash == state.hash:
		return state.decodeSpec(state.hash, liveAnnotations(live, recorded), func() (*unstructured.Unstructured, error) { return live, nil })
	case recorded == nil:
		delete(state.decoded, hash)
		return nil, revisionNotFound(component, name, hash)
	}
	return state.decodeSpec(hash, Annotations(recorded.Annotations), func() (*unstructured.Unstructured, error) { return Restore(recorded) })
}

// liveAnnotations returns the annotations of the resource that affect rendering. A resource that is not pinned yet keeps the pin of
// the revision with the same spec until the controller pins the resource.
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

func revisionNotFound(component api.Component, name types.NamespacedName, hash string) error {
	return &render.Error{Reason: ReasonRevisionNotFound, Message: fmt.Sprintf(
		"OCM refers to spec hash %.12s of %s %q, which has another spec now, and no ControllerRevision in namespace %q holds the old spec: the cluster keeps what it has until OCM's rollout assigns the present spec; to install the old spec, apply it again",
		hash, component.Kind(), name, name.Namespace)}
}

// findLive returns the resource from the cache, or nil.
func (s *Source) findLive(component api.Component, name types.NamespacedName) (*unstructured.Unstructured, error) {
	lister, ok := s.listers[component]
	if !ok {
		return nil, fmt.Errorf("cannot configure add-on %q: it is no add-on of this manager", component)
	}
	return Live(lister, component, name)
}

// findRecorded returns the revision with the hash, or nil.
func (s *Source) findRecorded(k resourceKey, hash string) (*appsv1.ControllerRevision, error) {
	o, exists, err := s.revisions.GetByKey(k.name.Namespace + "/" + Name(k.component, k.name.Name, hash))
	if err != nil || !exists {
		return nil, err
	}
	r, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil, fmt.Errorf("cannot read a revision of %s %q: it is a %T", k.component.Kind(), k.name, o)
	}
	if HashOf(r) != hash { // a user changed the revision, which proves nothing now
		return nil, nil
	}
	return r, nil
}

// updateState returns the state of a resource after an update to the present spec. Specs that no revision holds now are forgotten.
func (s *Source) updateState(k resourceKey, live *unstructured.Unstructured) (*resourceState, error) {
	state, ok := s.states[k]
	if ok && state.live == live {
		return state, nil
	}
	hash, err := Hash(live)
	if err != nil {
		return nil, err
	}
	if !ok {
		s.forgetDeleted()
		state = &resourceState{decoded: map[string]decodedSpec{}}
		s.states[k] = state
	}
	changed := state.hash != hash
	state.live, state.hash = live, hash
	if !changed {
		return state, nil
	}
	for old := range state.decoded {
		if recorded, err := s.findRecorded(k, old); old != hash && err == nil && recorded == nil {
			delete(state.decoded, old)
		}
	}
	return state, nil
}

// forgetDeleted forgets the deleted resources whenever the number of resources has doubled: no caller asks for a deleted resource.
func (s *Source) forgetDeleted() {
	if len(s.states) < s.checkAt {
		return
	}
	maps.DeleteFunc(s.states, func(k resourceKey, _ *resourceState) bool {
		live, err := s.findLive(k.component, k.name)
		return err == nil && live == nil
	})
	s.checkAt = max(minStates, 2*len(s.states))
}

// decodeSpec returns the Install of the spec with the hash. decodeSpec calls config only for a spec that is not decoded yet.
func (r *resourceState) decodeSpec(hash string, annotations map[string]string, config func() (*unstructured.Unstructured, error)) (*render.Install, error) {
	if d, ok := r.decoded[hash]; ok && maps.Equal(d.annotations, annotations) {
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
	r.decoded[hash] = decodedSpec{annotations: annotations, install: install, err: err}
	return install, err
}
