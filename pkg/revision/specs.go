// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// minStates is the number of resources below which no state is dropped.
const minStates = 64

// Specs finds the decoded spec that a resource had under a hash. Specs is safe for concurrent use.
type Specs[T any] struct {
	listers   map[Kind]cache.GenericLister
	revisions cache.Indexer
	decode    func(config *unstructured.Unstructured, annotations map[string]string) (T, error)

	mu     sync.Mutex
	states map[resourceKey]*resourceState[T]
	// checkAt is the number of states at which the states of deleted resources are dropped.
	checkAt int
}

type resourceKey struct {
	kind Kind
	name types.NamespacedName
}

// resourceState holds the decoded specs of one resource.
type resourceState[T any] struct {
	// live is the resource as the latest call read it, and hash the hash of its spec: a change of the status makes another object.
	live *unstructured.Unstructured
	hash string
	// decoded has the specs by hash.
	decoded map[string]decodedSpec[T]
}

// decodedSpec is a decoded spec with the annotations that affect rendering.
type decodedSpec[T any] struct {
	annotations map[string]string
	value       T
	err         error
}

// NewSpecs returns Specs that read resources from the listers and ControllerRevisions from the indexer, which needs Indexers. Decode
// gets the annotations that affect rendering.
func NewSpecs[T any](
	listers map[Kind]cache.GenericLister, revisions cache.Indexer,
	decode func(config *unstructured.Unstructured, annotations map[string]string) (T, error),
) *Specs[T] {
	return &Specs[T]{listers: listers, revisions: revisions, decode: decode, states: map[resourceKey]*resourceState[T]{}, checkAt: minStates}
}

// At returns the decoded spec of a resource at the time when the spec had the hash. The empty hash stands for the present spec.
func (s *Specs[T]) At(kind Kind, name types.NamespacedName, hash string) (T, error) {
	var none T
	live, err := s.findLive(kind, name)
	if err != nil {
		return none, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := resourceKey{kind, name}
	if live == nil {
		delete(s.states, k)
		return none, &render.Error{Reason: api.ReasonConfigNotFound, Message: fmt.Sprintf("%s %q does not exist", kind.Kind(), name)}
	}
	state, err := s.updateState(k, live)
	if err != nil {
		return none, err
	}
	recorded, err := Find(s.revisions, kind, name, cmp.Or(hash, state.hash))
	if err != nil {
		return none, err
	}
	switch {
	case hash == "" || hash == state.hash:
		return s.decodeSpec(state, state.hash, liveAnnotations(live, recorded), func() (*unstructured.Unstructured, error) { return live, nil })
	case recorded == nil:
		delete(state.decoded, hash)
		return none, revisionNotFound(kind, name, hash)
	}
	return s.decodeSpec(state, hash, Annotations(recorded.Annotations), func() (*unstructured.Unstructured, error) {
		restored, err := Restore(recorded)
		if err != nil {
			return nil, revisionUnusable(err)
		}
		return restored, nil
	})
}

// liveAnnotations returns the annotations of the resource that affect rendering. A resource that is not pinned yet keeps the pin of
// the revision with the same spec until the controller pins the resource. On a cluster without a work agent, where no rollout may still need an
// older pin, the pin counts only if the cluster has that version: the revision may be of an earlier time.
func liveAnnotations(live *unstructured.Unstructured, recorded *appsv1.ControllerRevision) map[string]string {
	out := Annotations(live.GetAnnotations())
	if recorded == nil || out[api.PinnedVersionAnnotation] != "" {
		return out
	}
	pin := recorded.Annotations[api.PinnedVersionAnnotation]
	if isDirect := slices.Contains(live.GetFinalizers(), api.DirectFinalizer); isDirect && !HasDelivered(live, pin) {
		return out
	}
	if pin != "" {
		out[api.PinnedVersionAnnotation] = pin
	}
	return out
}

// HasDelivered reports whether the cluster of a resource has the version, by the status of the resource.
func HasDelivered(config *unstructured.Unstructured, version string) bool {
	delivered, _, _ := unstructured.NestedString(config.Object, "status", "version")
	return version != "" && delivered == version
}

func revisionNotFound(kind Kind, name types.NamespacedName, hash string) error {
	return &render.Error{Reason: api.ReasonRevisionNotFound, Message: fmt.Sprintf(
		"OCM refers to spec hash %.12s of %s %q, which has another spec now, and no ControllerRevision in namespace %q holds the old spec: the cluster keeps its installation until OCM's rollout assigns the present spec; to install the old spec, apply the old spec again",
		hash, kind.Kind(), name, name.Namespace)}
}

// revisionUnusable returns the error of a cluster whose desired spec has a ControllerRevision that does not hold the spec.
func revisionUnusable(err error) error {
	return &render.Error{Reason: api.ReasonRevisionNotFound, Err: err, Message: message.Shorten(err.Error(), message.MaxNote) +
		": the cluster keeps its installation until OCM's rollout assigns the present spec; to install the old spec, delete the ControllerRevision and apply the old spec again"}
}

// findLive returns the resource from the cache, or nil.
func (s *Specs[T]) findLive(kind Kind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	lister, ok := s.listers[kind]
	if !ok {
		return nil, fmt.Errorf("cannot configure add-on %q: it is no add-on of this manager", kind)
	}
	return Live(lister, kind, name)
}

// updateState returns the state of a resource after an update to the present spec. Specs that no revision holds now are forgotten.
func (s *Specs[T]) updateState(k resourceKey, live *unstructured.Unstructured) (*resourceState[T], error) {
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
		state = &resourceState[T]{decoded: map[string]decodedSpec[T]{}}
		s.states[k] = state
	}
	changed := state.hash != hash
	state.live, state.hash = live, hash
	if !changed {
		return state, nil
	}
	for old := range state.decoded {
		if recorded, err := Find(s.revisions, k.kind, k.name, old); old != hash && err == nil && recorded == nil {
			delete(state.decoded, old)
		}
	}
	return state, nil
}

// forgetDeleted forgets the deleted resources whenever the number of resources has doubled: no caller asks for a deleted resource.
func (s *Specs[T]) forgetDeleted() {
	if len(s.states) < s.checkAt {
		return
	}
	maps.DeleteFunc(s.states, func(k resourceKey, _ *resourceState[T]) bool {
		live, err := s.findLive(k.kind, k.name)
		return err == nil && live == nil
	})
	s.checkAt = max(minStates, 2*len(s.states))
}

// decodeSpec returns the decoded spec with the hash. decodeSpec calls config only for a spec that is not decoded yet.
func (s *Specs[T]) decodeSpec(
	state *resourceState[T], hash string, annotations map[string]string, config func() (*unstructured.Unstructured, error),
) (T, error) {
	if d, ok := state.decoded[hash]; ok && maps.Equal(d.annotations, annotations) {
		return d.value, d.err
	}
	u, err := config()
	if err != nil {
		var none T
		return none, err
	}
	value, err := s.decode(u, annotations)
	state.decoded[hash] = decodedSpec[T]{annotations: annotations, value: value, err: err}
	return value, err
}
