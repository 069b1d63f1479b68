// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

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

// workWrites remembers the last write of each ManifestWork.
type workWrites struct {
	lastWrites

	payloads, foundations cache.SharedIndexInformer
}

// isUncached reports whether this manager has written a work with the name of made, and the cache that gets made does not have the write.
func (w *workWrites) isUncached(key types.NamespacedName, made *workv1.ManifestWork) bool {
	informer := w.payloads
	if made.Labels[api.FoundationLabel] != "" {
		informer = w.foundations
	}
	return w.isAfter(key, informer.LastSyncResourceVersion())
}

// rememberingWorks is a client of the works of a namespace. The client sends no write that the hub has to refuse after an earlier write of this
// manager: the client itself returns the AlreadyExists or the Conflict.
type rememberingWorks struct {
	workv1client.ManifestWorkInterface

	namespace string
	writes    *workWrites
}

func (w *workWrites) wrap(namespace string, works workv1client.ManifestWorkInterface) workv1client.ManifestWorkInterface {
	return &rememberingWorks{works, namespace, w}
}

// Create implements workv1client.ManifestWorkInterface.
func (r *rememberingWorks) Create(ctx context.Context, work *workv1.ManifestWork, options metav1.CreateOptions) (*workv1.ManifestWork, error) {
	if r.writes.isUncached(r.key(work.Name), work) {
		return nil, cacheBehind(apierrors.NewAlreadyExists(r.writes.kind, work.Name))
	}
	return sendUnlessStale(r.writes.lastWrites, r.key(work.Name), "", func() (*workv1.ManifestWork, error) {
		return r.ManifestWorkInterface.Create(ctx, work, options)
	})
}

// Update implements workv1client.ManifestWorkInterface.
func (r *rememberingWorks) Update(ctx context.Context, work *workv1.ManifestWork, options metav1.UpdateOptions) (*workv1.ManifestWork, error) {
	return sendUnlessStale(r.writes.lastWrites, r.key(work.Name), work.ResourceVersion, func() (*workv1.ManifestWork, error) {
		return r.ManifestWorkInterface.Update(ctx, work, options)
	})
}

// Patch implements workv1client.ManifestWorkInterface.
func (r *rememberingWorks) Patch( //nolint:revive // the interface has as many arguments
	ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*workv1.ManifestWork, error) {
	return sendUnlessStale(r.writes.lastWrites, r.key(name), versionOfPatch(data), func() (*workv1.ManifestWork, error) {
		return r.ManifestWorkInterface.Patch(ctx, name, kind, data, options, subresources...)
	})
}

func (r *rememberingWorks) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}
