// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// causeCacheBehind is the cause of an AlreadyExists or a Conflict that the client of works returns in place of the hub.
const causeCacheBehind metav1.CauseType = "CacheBehind"

// IsCacheBehind reports whether err tells of a write that the client has not sent, because the cache does not have the last write of this
// manager yet. The event of that write starts the next pass.
func IsCacheBehind(err error) bool { return apierrors.HasStatusCause(err, causeCacheBehind) }

// cacheBehindLimit is how long a write of a work holds back further writes. A hub that was restored from a backup counts resource
// versions from an earlier one, so that the versions of writes before the restoration are no longer comparable.
const cacheBehindLimit = time.Minute

// WrapWorks returns a client whose ManifestWorks of each namespace wrap returns.
func WrapWorks(client workclient.Interface, wrap func(namespace string, works workv1client.ManifestWorkInterface) workv1client.ManifestWorkInterface) workclient.Interface {
	return &wrappedClient{client, wrap}
}

type wrappedClient struct {
	workclient.Interface

	wrap func(string, workv1client.ManifestWorkInterface) workv1client.ManifestWorkInterface
}

// WorkV1 implements workclient.Interface.
func (c *wrappedClient) WorkV1() workv1client.WorkV1Interface {
	return &wrappedGroup{c.Interface.WorkV1(), c.wrap}
}

type wrappedGroup struct {
	workv1client.WorkV1Interface

	wrap func(string, workv1client.ManifestWorkInterface) workv1client.ManifestWorkInterface
}

// ManifestWorks implements workv1client.WorkV1Interface.
func (g *wrappedGroup) ManifestWorks(namespace string) workv1client.ManifestWorkInterface {
	return g.wrap(namespace, g.WorkV1Interface.ManifestWorks(namespace))
}

// workWrites remembers the last write of each ManifestWork. On a busy hub, the watch of a cache brings a write seconds later, and a
// controller that runs meanwhile would create the work again, or change the former state of the work.
type workWrites struct {
	payloads, foundations cache.SharedIndexInformer
	// last holds a workWrite for each types.NamespacedName.
	last *utilcache.Expiring
}

// workWrite is a write of a work.
type workWrite struct {
	// version is the resource version that the write has given to the work.
	version string
	// informer fills the cache that gets the work.
	informer cache.SharedIndexInformer
}

// rememberWrites makes the client of works remember each write until the cache has the write.
func (h *Hub) rememberWrites() {
	writes := &workWrites{payloads: h.Payloads().Informer(), foundations: h.Foundations().Informer(), last: utilcache.NewExpiring()}
	h.Clients.Works = WrapWorks(h.Clients.Works, func(namespace string, works workv1client.ManifestWorkInterface) workv1client.ManifestWorkInterface {
		return &rememberingWorks{works, namespace, writes}
	})
}

// remember records the work that the hub returned for a write, and passes on the results of the write. A work that no cache gets is not recorded.
func (w *workWrites) remember(stored *workv1.ManifestWork, err error) (*workv1.ManifestWork, error) {
	if err != nil {
		return stored, err
	}
	var informer cache.SharedIndexInformer
	switch {
	case stored.Labels[api.FoundationLabel] != "":
		informer = w.foundations
	case stored.Labels[addonv1beta1.AddonLabelKey] != "":
		informer = w.payloads
	default:
		return stored, nil
	}
	key := types.NamespacedName{Namespace: stored.Namespace, Name: stored.Name}
	w.last.Set(key, workWrite{stored.ResourceVersion, informer}, cacheBehindLimit)
	return stored, nil
}

// isUncached reports whether this manager has written the work, and the cache does not have the write.
func (w *workWrites) isUncached(key types.NamespacedName) bool {
	value, _ := w.last.Get(key)
	last, ok := value.(workWrite)
	return ok && isOlder(last.informer.LastSyncResourceVersion(), last.version)
}

// isReplaced reports whether a write of this manager has replaced the version of the work.
func (w *workWrites) isReplaced(key types.NamespacedName, version string) bool {
	value, _ := w.last.Get(key)
	last, ok := value.(workWrite)
	return ok && isOlder(version, last.version)
}

// isOlder reports whether both texts are resource versions, and the first is older than the second.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// rememberingWorks is a client of the works of a namespace. The client sends no write that the hub has to refuse after an earlier write of this
// manager: the client itself returns the AlreadyExists or the Conflict.
type rememberingWorks struct {
	workv1client.ManifestWorkInterface

	namespace string
	writes    *workWrites
}

// Create implements workv1client.ManifestWorkInterface.
func (r *rememberingWorks) Create(ctx context.Context, work *workv1.ManifestWork, options metav1.CreateOptions) (*workv1.ManifestWork, error) {
	if r.writes.isUncached(r.key(work.Name)) {
		return nil, cacheBehind(apierrors.NewAlreadyExists(workv1.Resource("manifestworks"), work.Name))
	}
	return r.writes.remember(r.ManifestWorkInterface.Create(ctx, work, options))
}

// Update implements workv1client.ManifestWorkInterface.
func (r *rememberingWorks) Update(ctx context.Context, work *workv1.ManifestWork, options metav1.UpdateOptions) (*workv1.ManifestWork, error) {
	if r.writes.isReplaced(r.key(work.Name), work.ResourceVersion) {
		return nil, cacheBehind(conflict(work.Name))
	}
	return r.writes.remember(r.ManifestWorkInterface.Update(ctx, work, options))
}

// Patch implements workv1client.ManifestWorkInterface.
func (r *rememberingWorks) Patch( //nolint:revive // the interface has as many arguments
	ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*workv1.ManifestWork, error) {
	if r.writes.isReplaced(r.key(name), versionOfPatch(data)) {
		return nil, cacheBehind(conflict(name))
	}
	return r.writes.remember(r.ManifestWorkInterface.Patch(ctx, name, kind, data, options, subresources...))
}

func (r *rememberingWorks) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}

func conflict(name string) *apierrors.StatusError {
	return apierrors.NewConflict(workv1.Resource("manifestworks"), name, errors.New("this manager has replaced the version"))
}

// cacheBehind adds the cause that IsCacheBehind finds.
func cacheBehind(err *apierrors.StatusError) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: causeCacheBehind, Message: "the cache does not have the last write of this manager yet",
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
