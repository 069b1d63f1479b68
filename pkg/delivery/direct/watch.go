// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// views are the views of a cluster. They start with the first use.
type views struct {
	mu      sync.Mutex
	started map[place]*view
	closed  bool
}

// syncTimeout is how long a first list may take.
const syncTimeout = 20 * time.Second

// see returns the view of a place, with everything that there is. A cluster that does not know the resource has none:
// the view is nil.
func (c *Cluster) see(ctx context.Context, at place) (*view, error) {
	v, err := c.startView(at) //nolint:contextcheck // a view outlives the request that needs it first
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return c.await(ctx, at, v)
}

// await waits until a view is there. One that has failed is dropped, so that the next who needs it tries again.
func (c *Cluster) await(ctx context.Context, at place, v *view) (*view, error) {
	select {
	case <-v.ready: // also when the time is up
	default:
		select {
		case <-v.ready:
		case <-ctx.Done():
			c.dropView(at, v)
			return nil, fmt.Errorf("cannot list %s within %s: %w", at.GroupResource(), syncTimeout, ctx.Err())
		}
	}
	switch {
	case v.err == nil:
		if err := v.refused(); err != nil { // it is tried again until it is allowed
			return nil, fmt.Errorf("cannot list %s: %w", at.GroupResource(), err)
		}
		return v, nil
	case apierrors.IsNotFound(v.err):
		c.dropView(at, v)
		return nil, nil
	}
	c.dropView(at, v)
	return nil, fmt.Errorf("cannot list %s: %w", at.GroupResource(), v.err)
}

func (c *Cluster) startView(at place) (*view, error) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	if c.views.closed {
		return nil, fmt.Errorf("cannot list %s: the connection is closed", at.GroupResource())
	}
	if v, ok := c.views.started[at]; ok {
		return v, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := newView(c.changed)
	v.stop = cancel
	c.views.started[at] = v
	f := &follower{view: v, outlook: &c.outlook, at: at, source: c}
	go f.run(ctx)
	return v, nil
}

func (c *Cluster) dropView(at place, v *view) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	if c.views.started[at] == v {
		v.stop()
		delete(c.views.started, at)
	}
}

// list lists the objects of ours in a place. There is no limit: they are few, and the API server takes them from its
// cache as soon as the options name a version.
func (c *Cluster) list(ctx context.Context, at place, options metav1.ListOptions) (objects []*sight, version string, err error) {
	options.LabelSelector = api.ComponentLabel
	var items []runtime.Object
	if needsStatus(at.GroupVersionResource) {
		list, err := c.dynamic.Resource(at.GroupVersionResource).Namespace(at.namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		version = list.GetResourceVersion()
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	} else {
		list, err := c.metadata.Resource(at.GroupVersionResource).Namespace(at.namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		version = list.GetResourceVersion()
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	}
	for _, item := range items {
		s, err := sightOf(item)
		if err != nil {
			return nil, "", err
		}
		objects = append(objects, s)
	}
	return objects, version, nil
}

// watch watches the objects of ours in a place.
func (c *Cluster) watch(ctx context.Context, at place, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = api.ComponentLabel
	if needsStatus(at.GroupVersionResource) {
		return c.dynamic.Resource(at.GroupVersionResource).Namespace(at.namespace).Watch(ctx, options)
	}
	return c.metadata.Resource(at.GroupVersionResource).Namespace(at.namespace).Watch(ctx, options)
}
