// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Place is what a View caches: a resource in one namespace, or a cluster-scoped resource. Caching all namespaces would need a
// credential that may read every Secret of the cluster.
type Place struct {
	schema.GroupVersionResource

	Namespace string
}

// viewSet holds the views of a cluster. A view starts with its first use.
type viewSet struct {
	mu      sync.Mutex
	started Views
	// needed has the places that each user needs.
	needed map[string][]Place
	closed bool
}

// firstListTimeout bounds the first list of a view.
const firstListTimeout = 20 * time.Second

// View returns the view of a place after the first list. The view is nil where the cluster does not know the resource. A view of a place that no
// user of Views needs ends with the next change of the needed places.
func (c *Cluster) View(ctx context.Context, at Place) (*View, error) {
	v, err := c.startView(at) //nolint:contextcheck // a view outlives the request that needs it first
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, firstListTimeout)
	defer cancel()
	return c.awaitView(ctx, at, v)
}

// Views returns the views of the places that a user needs now, after the first lists, which run in parallel since a cluster may be far away. A view
// is nil where the cluster does not know the resource. The views of all places that no user needs end.
func (c *Cluster) Views(ctx context.Context, user string, places []Place) (Views, error) {
	c.needPlaces(user, places)
	views := make([]*View, len(places))
	for n, at := range places {
		var err error
		if views[n], err = c.startView(at); err != nil { //nolint:contextcheck // a view outlives the request that needs it first
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, firstListTimeout)
	defer cancel()
	out := Views{}
	var failed error
	for n, at := range places {
		v, err := c.awaitView(ctx, at, views[n])
		if err != nil && failed == nil {
			failed = err
		}
		out[at] = v
	}
	return out, failed
}

// ReleaseViews ends the views of the places that only the user needs.
func (c *Cluster) ReleaseViews(user string) { c.needPlaces(user, nil) }

// needPlaces records the places that a user needs, and drops the views that no user needs.
func (c *Cluster) needPlaces(user string, places []Place) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	if len(places) == 0 {
		delete(c.views.needed, user)
	} else {
		c.views.needed[user] = places
	}
	needed := map[Place]bool{}
	for _, places := range c.views.needed {
		for _, at := range places {
			needed[at] = true
		}
	}
	for at, v := range c.views.started {
		if !needed[at] {
			c.views.drop(at, v)
		}
	}
}

// StartedViews returns the views that were started and not dropped since. A first list may be under way.
func (c *Cluster) StartedViews() Views {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	return maps.Clone(c.views.started)
}

// awaitView waits for the first list of a view. A list that takes longer than the caller waits goes on, and a view whose first list has failed is
// dropped, so that the next caller starts a new view.
func (c *Cluster) awaitView(ctx context.Context, at Place, v *View) (*View, error) {
	select {
	case <-v.ready: // also after the deadline
	default:
		select {
		case <-v.ready:
		case <-ctx.Done(): // the list goes on, and the next caller may get the view
			return nil, fmt.Errorf("cannot list %s within %s: %w", at.GroupResource(), firstListTimeout, ctx.Err())
		}
	}
	switch {
	case v.firstListErr == nil:
		if err := v.listError(); err != nil { // the reflector repeats the list until a list succeeds
			return nil, fmt.Errorf("cannot list %s: %w", at.GroupResource(), err)
		}
		return v, nil
	case apierrors.IsNotFound(v.firstListErr):
		return nil, nil
	}
	return nil, fmt.Errorf("cannot list %s: %w", at.GroupResource(), v.firstListErr)
}

func (c *Cluster) startView(at Place) (*View, error) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	if c.views.closed {
		return nil, fmt.Errorf("cannot list %s: the connection is closed", at.GroupResource())
	}
	if v, ok := c.views.started[at]; ok {
		return v, nil
	}
	if len(c.views.started) >= maxPlaces {
		return nil, NewBoundError("the records of what is installed name more than %d resources and namespaces", maxPlaces)
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := newView(c.onChange)
	v.cancel, v.quota, v.onStateChange = cancel, &c.quota, c.poller.recordChange
	c.views.started[at] = v
	f := &reflector{view: v, policy: &c.policy, poller: c.poller, at: at, source: c, dropView: func() { c.dropView(at, v) }}
	go f.run(ctx)
	return v, nil
}

func (c *Cluster) dropView(at Place, v *View) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	if c.views.started[at] == v {
		c.views.drop(at, v)
	}
}

// drop ends a started view. The caller holds the lock.
func (s *viewSet) drop(at Place, v *View) {
	v.cancel()
	v.releaseQuota()
	delete(s.started, at)
}

// isListed reports whether the first list of the view has ended.
func (v *View) isListed() bool {
	select {
	case <-v.ready:
		return true
	default:
		return false
	}
}

// listObjects lists the objects in a place that have our component label. An object that has not changed since the view cached the object is
// not decoded: the digest of the fields takes more time than the list.
func (c *Cluster) listObjects(
	ctx context.Context, at Place, options metav1.ListOptions, cached *View,
) (objects []*Object, version string, err error) {
	options.LabelSelector = api.ComponentLabel
	complete, err := ListPages(ctx, options, MaxObjects, func(ctx context.Context, options metav1.ListOptions) (*metav1.ListMeta, error) {
		items, meta, err := c.listPage(ctx, at, options)
		if err != nil {
			return nil, err
		}
		version = meta.ResourceVersion
		for _, item := range items {
			s, err := cached.readObject(item)
			if err != nil {
				return nil, err
			}
			objects = append(objects, s)
		}
		return meta, nil
	})
	switch {
	case err != nil:
		return nil, "", err
	case !complete || len(objects) > MaxObjects:
		return nil, "", NewTooManyObjectsError(at.GroupResource())
	case len(version) > maxVersionBytes:
		return nil, "", NewBoundError("the resource version of a list is longer than %d bytes", maxVersionBytes)
	}
	return objects, version, nil
}

// listPage lists a page of a place. Only resources whose status is needed are read in full.
func (c *Cluster) listPage(ctx context.Context, at Place, options metav1.ListOptions) (items []runtime.Object, meta *metav1.ListMeta, err error) {
	if !needsStatus(at.GroupVersionResource) {
		list, err := c.Metadata.Resource(at.GroupVersionResource).Namespace(at.Namespace).List(ctx, options)
		if err != nil {
			return nil, nil, err
		}
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
		return items, &list.ListMeta, nil
	}
	list, err := c.Dynamic.Resource(at.GroupVersionResource).Namespace(at.Namespace).List(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		items = append(items, &list.Items[i])
	}
	return items, &metav1.ListMeta{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue()}, nil
}

// watchObjects watches the objects in a place that have our component label.
func (c *Cluster) watchObjects(ctx context.Context, at Place, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = api.ComponentLabel
	if needsStatus(at.GroupVersionResource) {
		return c.Dynamic.Resource(at.GroupVersionResource).Namespace(at.Namespace).Watch(ctx, options)
	}
	return c.Metadata.Resource(at.GroupVersionResource).Namespace(at.Namespace).Watch(ctx, options)
}
