// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"encoding/json"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// causeCacheBehind is the cause of an AlreadyExists or a Conflict that a client returns in place of the hub.
const causeCacheBehind metav1.CauseType = "CacheBehind"

// IsCacheBehind reports whether err tells of a write that the client has not sent, because the cache does not have an earlier write yet. The event of
// that write starts the next pass.
func IsCacheBehind(err error) bool { return apierrors.HasStatusCause(err, causeCacheBehind) }

// cacheBehindLimit is how long a write of an object, or a Conflict, holds back further writes. A hub that was restored from a backup counts resource
// versions from an earlier one, so that the versions of writes before the restoration are no longer comparable.
const cacheBehindLimit = time.Minute

// lastWrites remembers the last write of each object of a kind, and the last version of which the hub has refused a write. On a busy hub, the watch of
// a cache brings a write seconds later, and a controller that runs meanwhile would create the object again, or change the former state of the object.
type lastWrites struct {
	kind schema.GroupResource
	// versions holds for each types.NamespacedName the resource version that the write has given to the object.
	versions *utilcache.Expiring
	// refused holds for each types.NamespacedName the resource version that another client has replaced.
	refused *utilcache.Expiring
}

func newLastWrites(kind schema.GroupResource) lastWrites {
	return lastWrites{kind, utilcache.NewExpiring(), utilcache.NewExpiring()}
}

// sendUnlessStale sends a write that starts from a version of an object, and remembers the result. Instead of a write of a version that was replaced, as
// far as this manager knows, sendUnlessStale returns the Conflict that the hub would return. A write without a version is always sent.
func sendUnlessStale[T metav1.Object](w lastWrites, key types.NamespacedName, version string, write func() (T, error)) (T, error) {
	if w.isReplaced(key, version) {
		var none T
		return none, cacheBehind(apierrors.NewConflict(w.kind, key.Name, errors.New("another write has replaced the version")))
	}
	stored, err := write()
	switch {
	case err == nil:
		w.versions.Set(key, stored.GetResourceVersion(), cacheBehindLimit)
	case apierrors.IsConflict(err) && version != "":
		w.refused.Set(key, version, cacheBehindLimit)
	}
	return stored, err
}

// isReplaced reports whether another version of the object has replaced the version.
func (w lastWrites) isReplaced(key types.NamespacedName, version string) bool {
	refused, _ := w.refused.Get(key)
	return refused == version || w.isAfter(key, version)
}

// isAfter reports whether this manager has written the object after the resource version.
func (w lastWrites) isAfter(key types.NamespacedName, version string) bool {
	value, _ := w.versions.Get(key)
	last, _ := value.(string)
	order, err := resourceversion.CompareResourceVersion(version, last)
	return err == nil && order < 0
}

// cacheBehind adds the cause that IsCacheBehind finds.
func cacheBehind(err *apierrors.StatusError) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: causeCacheBehind, Message: "the cache does not have an earlier write yet",
	})
	return err
}

// versionOfPatch returns the resource version that a merge patch requires; empty when the patch requires none.
func versionOfPatch(data []byte) string {
	var patch struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(data, &patch) != nil {
		return ""
	}
	return patch.Metadata.ResourceVersion
}
