// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// view is what is seen of the objects in one place that have our label.
type view struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc

	mu  sync.Mutex
	err error // of the last attempt to list or watch; nil while that works
}

// views are the views of a cluster. They start with the first use.
type views struct {
	mu      sync.Mutex
	started map[place]*view
	closed  bool
}

const (
	// syncTimeout is how long a first list may take.
	syncTimeout = 20 * time.Second
	// syncPoll is how often is looked whether it is there; it is there within milliseconds.
	syncPoll = 20 * time.Millisecond
)

// see returns the view of a place, with everything that there is. A cluster that does not know the resource has none:
// the view is nil.
func (c *Cluster) see(ctx context.Context, at place) (*view, error) {
	v, err := c.startView(at) //nolint:contextcheck // a view outlives the request that needs it first
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	tick := time.NewTicker(syncPoll)
	defer tick.Stop()
	for !v.informer.HasSynced() {
		if err := v.lastError(); err != nil {
			c.dropView(at, v) // the next one asks again
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			return nil, fmt.Errorf("cannot watch %s: %w", at.GroupResource(), err)
		}
		select {
		case <-ctx.Done():
			c.dropView(at, v)
			return nil, fmt.Errorf("cannot list %s within %s: %w", at.GroupResource(), syncTimeout, ctx.Err())
		case <-tick.C:
		}
	}
	return v, nil
}

func (c *Cluster) startView(at place) (*view, error) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	if c.views.closed {
		return nil, fmt.Errorf("cannot watch %s: the connection is closed", at.GroupResource())
	}
	if v, ok := c.views.started[at]; ok {
		return v, nil
	}
	v := &view{informer: c.informer(at)}
	if err := v.informer.SetTransform(sightOf); err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", at.GroupResource(), err)
	}
	err := v.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		v.failed(err)
		logr.FromContextOrDiscard(ctx).V(1).Info("cannot watch", "resource", at.GroupResource(), "error", err.Error())
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", at.GroupResource(), err)
	}
	changed := func(o any) {
		v.failed(nil)
		c.changed(componentOf(o))
	}
	_, err = v.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, o any) { changed(o) },
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", at.GroupResource(), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	v.stop = cancel
	go v.informer.RunWithContext(ctx)
	c.views.started[at] = v
	return v, nil
}

// componentOf is the component of an object that an informer tells of.
func componentOf(o any) api.Component {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if s, ok := o.(*sight); ok {
		return api.Component(s.Labels[api.ComponentLabel])
	}
	return ""
}

func (c *Cluster) informer(at place) cache.SharedIndexInformer {
	selected := func(o *metav1.ListOptions) { o.LabelSelector = api.ComponentLabel }
	if needsStatus(at.GroupVersionResource) {
		return dynamicinformer.NewFilteredDynamicInformer(c.dynamic, at.GroupVersionResource, at.namespace, 0, cache.Indexers{}, selected).Informer()
	}
	return metadatainformer.NewFilteredMetadataInformer(c.metadata, at.GroupVersionResource, at.namespace, 0, cache.Indexers{}, selected).Informer()
}

func (c *Cluster) dropView(at place, v *view) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	if c.views.started[at] == v {
		v.stop()
		delete(c.views.started, at)
	}
}

func (v *view) failed(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
}

func (v *view) lastError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// get is what was last seen of an object; nil when it was not there.
func (v *view) get(namespace, name string) *sight {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	o, exists, err := v.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	s, _ := o.(*sight)
	return s
}

// before tells that the view has not come as far as a resource version.
func (v *view) before(version string) bool {
	return older(v.informer.LastSyncResourceVersion(), version)
}

// shows tells that an anchor is as it was last seen, or newer.
func (v *view) shows(a *anchor) bool {
	s := v.get(a.Namespace, a.Name)
	return v.before(a.ResourceVersion) || s != nil && s.ResourceVersion == a.ResourceVersion
}

// older compares resource versions; what is no version is as old as any.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
