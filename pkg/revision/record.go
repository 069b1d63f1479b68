// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/utils"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Hash returns the hash under which OCM refers to the present spec of the resource. The hash covers the whole spec, and neither
// annotations nor status.
func Hash(config *unstructured.Unstructured) (string, error) {
	hash, err := utils.GetSpecHash(config) // OCM's add-on manager uses this function for the status of the add-ons
	if err != nil {
		return "", fmt.Errorf("cannot hash the spec of %s \"%s/%s\": %w", config.GetKind(), config.GetNamespace(), config.GetName(), err)
	}
	return hash, nil
}

// Annotations returns the annotations that affect rendering.
func Annotations(all map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{api.InstallNamespaceAnnotation, api.PinnedVersionAnnotation, api.VerificationAnnotation} {
		if value, ok := all[name]; ok {
			out[name] = value
		}
	}
	return out
}

const (
	// maxReadable is the number of bytes of the resource's name that the name of a revision repeats, for readers.
	maxReadable = 40
	// idBytes is the length of the hash that distinguishes the specs of all resources of a hub.
	idBytes = 8
)

// Name returns the name of the revision that holds the spec with the hash. The revision is in the namespace of the resource.
func Name(kind Kind, resource, hash string) string {
	id := sha256.Sum256([]byte(kind.Kind() + "/" + resource + "/" + hash))
	readable := strings.TrimRight(resource[:min(len(resource), maxReadable)], "-.")
	return fmt.Sprintf("%s-%s-%x", strings.ToLower(kind.Kind()), readable, id[:idBytes])
}

// maxDataBytes bounds the data of a revision: the greatest spec of a KnativeServing or KnativeEventing, apiVersion and kind.
const maxDataBytes = api.MaxSpecBytes + 256

// ErrTooLarge means that no revision can hold the spec of a resource.
var ErrTooLarge = errors.New("the spec is too large for a ControllerRevision")

// New returns the revision that holds the present spec of the resource, or ErrTooLarge.
func New(kind Kind, config *unstructured.Unstructured, number int64) (*appsv1.ControllerRevision, error) {
	hash, err := Hash(config)
	if err != nil {
		return nil, err
	}
	data := maps.Clone(config.Object) // the hash covers every other field
	delete(data, "metadata")
	delete(data, "status")
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the spec of %s \"%s/%s\": %w", config.GetKind(), config.GetNamespace(), config.GetName(), err)
	}
	if len(raw) > maxDataBytes {
		return nil, fmt.Errorf("cannot record a spec of %s \"%s/%s\" with %d bytes, of which %d are allowed: %w",
			config.GetKind(), config.GetNamespace(), config.GetName(), len(raw), maxDataBytes, ErrTooLarge)
	}
	annotations := Annotations(config.GetAnnotations())
	annotations[api.SpecHashAnnotation] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: config.GetNamespace(), Name: Name(kind, config.GetName(), hash),
			Labels: Labels(kind, config.GetName()), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{OwnerReference(kind, config)},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: number,
	}, nil
}

// Labels returns the labels that all revisions of a resource have. Resources whose long names begin alike have the same labels.
func Labels(kind Kind, resource string) map[string]string {
	return map[string]string{
		api.RevisionLabel:         kind.RevisionLabelValue(),
		api.RevisionResourceLabel: strings.TrimRight(resource[:min(len(resource), validation.LabelValueMaxLength)], "-."),
	}
}

// OwnerReference returns the reference by which Kubernetes deletes a revision with its resource.
func OwnerReference(kind Kind, config *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: kind.Resource().GroupVersion().String(), Kind: kind.Kind(),
		Name: config.GetName(), UID: config.GetUID(), Controller: new(true),
	}
}

// HashOf returns the hash of the spec in a revision.
func HashOf(r *appsv1.ControllerRevision) string { return r.Annotations[api.SpecHashAnnotation] }

// ResourceOf returns the resource of a revision; ok is false when no resource of a kind with a history owns the revision.
func ResourceOf(r *appsv1.ControllerRevision) (kind Kind, name types.NamespacedName, ok bool) {
	for _, kind := range Kinds() {
		if kind.RevisionLabelValue() != r.Labels[api.RevisionLabel] {
			continue
		}
		for _, o := range r.OwnerReferences {
			if o.Kind == kind.Kind() && o.APIVersion == kind.Resource().GroupVersion().String() {
				return kind, types.NamespacedName{Namespace: r.Namespace, Name: o.Name}, true
			}
		}
	}
	return nil, types.NamespacedName{}, false
}

// Restore returns the recorded resource: the spec, and the annotations that affect rendering.
func Restore(r *appsv1.ControllerRevision) (*unstructured.Unstructured, error) {
	kind, name, ok := ResourceOf(r)
	if !ok {
		return nil, fmt.Errorf("cannot read ControllerRevision \"%s/%s\": no KnativeServing, KnativeEventing, KnativeFleet or AddOnDeploymentConfig owns the revision", r.Namespace, r.Name)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(r.Data.Raw, &u.Object); err != nil {
		return nil, fmt.Errorf("cannot read ControllerRevision \"%s/%s\": %w", r.Namespace, r.Name, err)
	}
	hash, err := Hash(u)
	if err != nil {
		return nil, err
	}
	if hash != HashOf(r) {
		return nil, fmt.Errorf("cannot use ControllerRevision \"%s/%s\": its spec has hash %s, and not %s as its annotation says", r.Namespace, r.Name, hash, HashOf(r))
	}
	u.SetGroupVersionKind(kind.Resource().GroupVersion().WithKind(kind.Kind()))
	u.SetNamespace(name.Namespace)
	u.SetName(name.Name)
	u.SetAnnotations(Annotations(r.Annotations))
	return u, nil
}

const resourceIndex = "resource"

// Indexers returns the indexes of ControllerRevisions: revisions by resource, and hand-overs by component.
func Indexers() cache.Indexers {
	return cache.Indexers{HandoverIndex: indexHandover, resourceIndex: func(o any) ([]string, error) {
		r, ok := o.(*appsv1.ControllerRevision)
		if !ok {
			return nil, nil
		}
		kind, name, ok := ResourceOf(r)
		if !ok {
			return nil, nil
		}
		return []string{kind.RevisionLabelValue() + "/" + name.String()}, nil
	}}
}

// History lists the revisions of a resource, the newest first. The indexer needs Indexers.
func History(indexer cache.Indexer, kind Kind, name types.NamespacedName) ([]*appsv1.ControllerRevision, error) {
	objects, err := indexer.ByIndex(resourceIndex, kind.RevisionLabelValue()+"/"+name.String())
	if err != nil {
		return nil, fmt.Errorf("cannot list the revisions of %s %q: %w", kind.Kind(), name, err)
	}
	var out []*appsv1.ControllerRevision
	for _, o := range objects {
		if r, ok := o.(*appsv1.ControllerRevision); ok {
			out = append(out, r)
		}
	}
	SortNewestFirst(out)
	return out, nil
}

// Find returns the revision that holds the spec of a resource with the hash, or nil.
func Find(revisions cache.Store, kind Kind, name types.NamespacedName, hash string) (*appsv1.ControllerRevision, error) {
	o, exists, err := revisions.GetByKey(name.Namespace + "/" + Name(kind, name.Name, hash))
	if err != nil || !exists {
		return nil, err
	}
	r, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil, fmt.Errorf("cannot read a revision of %s %q: it is a %T", kind.Kind(), name, o)
	}
	if HashOf(r) != hash { // a user changed the revision, which proves nothing now
		return nil, nil
	}
	return r, nil
}

// SortNewestFirst orders revisions by their numbers.
func SortNewestFirst(revisions []*appsv1.ControllerRevision) {
	slices.SortFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Name, b.Name))
	})
}
