// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// view is what is seen of the objects of one resource that have our label.
type view struct {
	// changed is told the component of an object that is not as it was seen before.
	changed func(api.Component)
	stop    context.CancelFunc
	// ready is closed when the first list was tried; err says what came of it.
	ready chan struct{}
	err   error

	mu      sync.Mutex
	objects map[types.NamespacedName]*sight
	// version is how far the view has come.
	version string
	// refusal is what the cluster said when it refused the last list; nil when it did not.
	refusal error
}

func newView(changed func(api.Component)) *view {
	return &view{changed: changed, ready: make(chan struct{}), objects: map[types.NamespacedName]*sight{}}
}

// get is what was last seen of an object; nil when it was not there.
func (v *view) get(namespace, name string) *sight {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.objects[types.NamespacedName{Namespace: namespace, Name: name}]
}

// all are the objects as they were last seen, in any order.
func (v *view) all() []*sight {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]*sight, 0, len(v.objects))
	for _, s := range v.objects {
		out = append(out, s)
	}
	return out
}

// at is how far the view has come.
func (v *view) at() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.version
}

// before tells that the view has not come as far as a resource version.
func (v *view) before(version string) bool { return older(v.at(), version) }

// judge notes what came of a list after the first. A cluster that does not answer has not refused, and not allowed either.
func (v *view) judge(err error) {
	if err != nil && !isRefusal(err) {
		return
	}
	v.mu.Lock()
	if v.version == "" {
		v.mu.Unlock()
		return
	}
	news := (v.refusal == nil) != (err == nil)
	v.refusal = err
	v.mu.Unlock()
	if news {
		v.changed("")
	}
}

// refused is why nothing new is seen any more; nil while the cluster lets it.
func (v *view) refused() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refusal
}

// shows tells that an anchor is as it was last seen, or newer.
func (v *view) shows(a *anchor) bool {
	s := v.get(a.Namespace, a.Name)
	return v.before(a.ResourceVersion) || s != nil && s.ResourceVersion == a.ResourceVersion
}

// replace takes what a list has brought, and tells whether that differs from what was seen before.
func (v *view) replace(objects []*sight, version string) (differs bool) {
	v.mu.Lock()
	before := v.objects
	v.version, v.objects = version, make(map[types.NamespacedName]*sight, len(objects))
	var news []*sight
	for _, s := range objects {
		v.objects[s.key()] = s
		if have := before[s.key()]; have == nil || have.UID != s.UID || have.ResourceVersion != s.ResourceVersion {
			news = append(news, s)
		}
	}
	for key, s := range before {
		if v.objects[key] == nil {
			news = append(news, s)
		}
	}
	v.mu.Unlock()
	v.tell(news...)
	return len(news) > 0
}

// take takes what a watch has brought. What a list has brought before is no news.
func (v *view) take(kind watch.EventType, s *sight) {
	v.mu.Lock()
	if !older(v.version, s.ResourceVersion) {
		v.mu.Unlock()
		return
	}
	v.version = s.ResourceVersion
	switch kind {
	case watch.Added, watch.Modified:
		v.objects[s.key()] = s
	case watch.Deleted:
		delete(v.objects, s.key())
	case watch.Bookmark, watch.Error:
		v.mu.Unlock()
		return
	}
	v.mu.Unlock()
	v.tell(s)
}

func (v *view) tell(news ...*sight) {
	for _, s := range news {
		v.changed(api.Component(s.Labels[api.ComponentLabel]))
	}
}

// older compares resource versions; what is no version is as old as any.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
