// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"
)

// Most clusters of a fleet get equal works, and their agents report equal states. The caches of works therefore hold equal manifests,
// equal options and equal reports once for all clusters. A reader finds the spec and the report that the hub has, with one exception: the
// conditions of a manifest have no lastTransitionTime, because the time differs on each cluster. Only condition Applied that is not True has
// the time, for the readers of failures.

// Limits of the content, in bytes, that a workSharing remembers for the works that arrive later. maxSharedLists is for the lists of the
// manifests of a work, and of the reports on the manifests: addon-framework orders manifests of equal size at random, so that the payloads
// of a fleet have hundreds of orders, and the list of each order counts with the whole content.
const (
	maxSharedSpecs  = 8 << 20
	maxSharedStatus = 8 << 20
	maxSharedLists  = 32 << 20
)

// workSharing replaces the parts of arriving works by equal parts of earlier works.
type workSharing struct {
	manifests *sharedValues[[]byte]
	workloads *sharedValues[[]workv1.Manifest]
	// options holds specs without manifests.
	options *sharedValues[workv1.ManifestWorkSpec]

	reports    *sharedValues[[]workv1.ManifestCondition]
	conditions *sharedValues[[]metav1.Condition]
	feedback   *sharedValues[[]workv1.FeedbackValue]
	texts      *sharedValues[string]
}

func newWorkSharing() *workSharing {
	return &workSharing{
		manifests: newSharedValues[[]byte](maxSharedSpecs), workloads: newSharedValues[[]workv1.Manifest](maxSharedLists),
		options:    newSharedValues[workv1.ManifestWorkSpec](maxSharedSpecs),
		reports:    newSharedValues[[]workv1.ManifestCondition](maxSharedLists),
		conditions: newSharedValues[[]metav1.Condition](maxSharedStatus), feedback: newSharedValues[[]workv1.FeedbackValue](maxSharedStatus),
		texts: newSharedValues[string](maxSharedStatus),
	}
}

// transform is the transformation of the caches of works: transform removes managed fields and shares the content.
func (s *workSharing) transform(o any) (any, error) {
	o, err := stripManagedFields(o)
	if w, ok := o.(*workv1.ManifestWork); ok {
		s.shareSpec(&w.Spec)
		s.shareConditions(&w.Status.Conditions)
		s.shareReports(&w.Status.ResourceStatus)
	}
	return o, err
}

func (s *workSharing) shareSpec(spec *workv1.ManifestWorkSpec) {
	manifests := slices.Clone(spec.Workload.Manifests) // the decoder leaves room for more
	var digests []byte
	size := 0
	for i := range manifests {
		size += len(manifests[i].Raw)
		digest := sha256.Sum256(manifests[i].Raw)
		digests = append(digests, digest[:]...)
		manifests[i].Raw = s.manifests.share(digest, len(manifests[i].Raw), manifests[i].Raw)
	}
	spec.Workload.Manifests = nil
	*spec = shareEncoded(s.options, *spec)
	if manifests != nil {
		manifests = s.workloads.share(sha256.Sum256(digests), size, manifests)
	}
	spec.Workload.Manifests = manifests
}

// shareReports shares the reports on all manifests of a work or, where the reports differ from all earlier ones, the parts of the reports.
func (s *workSharing) shareReports(status *workv1.ManifestResourceStatus) {
	if len(status.Manifests) == 0 {
		return
	}
	reports := slices.Clone(status.Manifests)
	for i := range reports {
		dropTimes(reports[i].Conditions)
	}
	encoded, err := json.Marshal(reports)
	digest := sha256.Sum256(encoded)
	known, ok := s.reports.find(digest)
	switch {
	case ok:
		reports = known
	case err == nil:
		s.shareParts(reports)
		reports = s.reports.share(digest, len(encoded), reports)
	}
	status.Manifests = reports
}

// dropTimes removes the times of the conditions of a manifest, except the time of a failure.
func dropTimes(conditions []metav1.Condition) {
	for i := range conditions {
		if c := &conditions[i]; c.Type != workv1.ManifestApplied || c.Status == metav1.ConditionTrue {
			c.LastTransitionTime = metav1.Time{}
		}
	}
}

func (s *workSharing) shareParts(reports []workv1.ManifestCondition) {
	for i := range reports {
		m := &reports[i]
		for _, text := range []*string{
			&m.ResourceMeta.Group, &m.ResourceMeta.Version, &m.ResourceMeta.Kind, &m.ResourceMeta.Resource,
			&m.ResourceMeta.Namespace, &m.ResourceMeta.Name,
		} {
			s.shareText(text)
		}
		s.shareConditions(&m.Conditions)
		if len(m.StatusFeedbacks.Values) > 0 {
			m.StatusFeedbacks.Values = shareEncoded(s.feedback, m.StatusFeedbacks.Values)
		}
	}
}

// shareConditions shares a list of conditions and, for lists that differ only in times, the texts.
func (s *workSharing) shareConditions(conditions *[]metav1.Condition) {
	for i := range *conditions {
		c := &(*conditions)[i]
		s.shareText(&c.Type)
		s.shareText((*string)(&c.Status))
		s.shareText(&c.Reason)
		s.shareText(&c.Message)
	}
	if len(*conditions) > 0 {
		*conditions = shareEncoded(s.conditions, *conditions)
	}
}

func (s *workSharing) shareText(text *string) {
	if *text != "" {
		*text = s.texts.share(sha256.Sum256([]byte(*text)), len(*text), *text)
	}
}

// shareEncoded shares a value that has the same JSON as an earlier value. A value without JSON is not shared.
func shareEncoded[T any](values *sharedValues[T], value T) T {
	encoded, err := json.Marshal(value)
	if err != nil {
		return value
	}
	return values.share(sha256.Sum256(encoded), len(encoded), value)
}

// entrySize is about the number of bytes that a remembered value takes beside its content.
const entrySize = 128

// sharedValues remembers values by their content. Values of more than limit bytes together are forgotten, so that content which
// a cluster reports cannot fill the memory: earlier works keep sharing the forgotten values, and later works share new ones.
type sharedValues[T any] struct {
	limit int

	mu    sync.Mutex
	size  int
	known map[[sha256.Size]byte]T
}

func newSharedValues[T any](limit int) *sharedValues[T] {
	return &sharedValues[T]{limit: limit, known: map[[sha256.Size]byte]T{}}
}

// find returns the earlier value whose content has the digest.
func (v *sharedValues[T]) find(digest [sha256.Size]byte) (value T, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok = v.known[digest]
	return value, ok
}

// share returns the earlier value whose content has the same digest, or else the value. size is the number of bytes of the content.
func (v *sharedValues[T]) share(digest [sha256.Size]byte, size int, value T) T {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.known[digest]; ok {
		return known
	}
	size += entrySize
	if v.size+size > v.limit {
		clear(v.known)
		v.size = 0
	}
	if size <= v.limit {
		v.known[digest] = value
		v.size += size
	}
	return value
}
