// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Views are views by place. A view is nil where the cluster does not know the resource.
type Views map[Place]*View

// Find returns the cached object, or nil when the cluster has no such object. written is the resource version of the caller's
// last write. known is false as long as the view has not reached that version.
func (views Views) Find(at Place, name, written string) (object *Object, known bool) {
	v, found := views[at]
	switch {
	case !found:
		return nil, false
	case v == nil:
		return nil, true
	}
	behind := v.IsBehind(written) // before Get: the view advances between the two calls
	if object = v.Get(at.Namespace, name); object == nil && behind {
		return nil, false
	}
	if object != nil && IsOlder(object.ResourceVersion, written) {
		return nil, false
	}
	return object, true
}

// View caches the objects of one place that have our component label.
type View struct {
	// onChange is called with the component of an object that differs from the cached one.
	onChange func(api.Component)
	// onStateChange is called when the state of an object differs from the cached state, and not for another resource version alone.
	onStateChange func()
	cancel        context.CancelFunc
	// ready is closed after the first list; firstListErr is the error of that list.
	ready        chan struct{}
	firstListErr error

	// quota bounds the objects; nil is no bound.
	quota *objectQuota

	mu      sync.Mutex
	objects map[types.NamespacedName]*Object
	// dropped reports that no caller uses the view any more.
	dropped bool
	// version is the resource version that the view has reached.
	version string
	// listErr is why the view may be out of date: the error of a refused list, or of lists that have failed for maxListFailure; nil after a list.
	listErr error
	// failingSince is the time of the first of the failed lists in a row; zero without a failed list, and after the cluster did not answer.
	failingSince time.Time
}

const (
	// maxListFailure is the time after which a place whose lists fail is reported, although the cluster answers other requests.
	maxListFailure = 2 * time.Minute
	// maxListErrorBytes bounds the message of an error that a view keeps.
	maxListErrorBytes = 4 << 10
)

func newView(changed func(api.Component)) *View {
	return &View{onChange: changed, onStateChange: func() {}, ready: make(chan struct{}), objects: map[types.NamespacedName]*Object{}}
}

// NewFakeView returns a view for tests that has reached a resource version and never changes.
func NewFakeView(version string, objects ...*Object) *View {
	v := newView(func(api.Component) {})
	v.replaceObjects(objects, version)
	return v
}

// Get returns the cached object, or nil.
func (v *View) Get(namespace, name string) *Object {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.objects[types.NamespacedName{Namespace: namespace, Name: name}]
}

// readObject returns the cached object for an object of a list that has not changed, and otherwise the state of the object. A nil view has
// no cached objects.
func (v *View) readObject(o runtime.Object) (*Object, error) {
	if m, err := apimeta.Accessor(o); err == nil && v != nil {
		if have := v.Get(m.GetNamespace(), m.GetName()); have != nil && have.UID == m.GetUID() && have.ResourceVersion == m.GetResourceVersion() {
			return have, nil
		}
	}
	return ReadObject(o)
}

// List returns the cached objects in any order.
func (v *View) List() []*Object {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]*Object, 0, len(v.objects))
	for _, s := range v.objects {
		out = append(out, s)
	}
	return out
}

// hasUnfinishedObjects reports whether an object is a Job that has not finished, or a Service of Knative that is not Ready.
func (v *View) hasUnfinishedObjects() bool {
	return slices.ContainsFunc(v.List(), (*Object).isUnfinished)
}

// currentVersion returns the resource version that the view has reached.
func (v *View) currentVersion() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.version
}

// IsBehind reports whether the view has not reached a resource version yet.
func (v *View) IsBehind(version string) bool { return IsOlder(v.currentVersion(), version) }

// recordList records the result of a list after the first list. A refused list is reported at once. Any other failure may be an outage of the
// cluster, and is reported when the lists still fail after maxListFailure.
func (v *View) recordList(err error) {
	v.mu.Lock()
	if v.version == "" {
		v.mu.Unlock()
		return
	}
	before := v.listErr
	switch {
	case err == nil:
		v.listErr, v.failingSince = nil, time.Time{}
	case IsRefusal(err):
		v.listErr = shortenError(err)
	case v.failingSince.IsZero():
		v.failingSince = time.Now()
	case before == nil && time.Since(v.failingSince) >= maxListFailure:
		v.listErr = shortenError(err)
	}
	changed := (before == nil) != (v.listErr == nil)
	v.mu.Unlock()
	if changed {
		v.onChange("")
	}
}

// restartListFailure restarts maxListFailure: the cluster does not answer.
func (v *View) restartListFailure() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failingSince = time.Time{}
}

// listError returns why the view may be out of date; nil for a current view.
func (v *View) listError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listErr
}

// shortenError returns a short copy of a status that the cluster answered, with the same reason, and of any other long error.
func shortenError(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		if text := err.Error(); len(text) > maxListErrorBytes {
			return errors.New(cutText(text, maxListErrorBytes))
		}
		return err
	}
	status := answer.Status()
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: status.Code, Reason: metav1.StatusReason(cutText(string(status.Reason), maxNameBytes)),
		Message: cutText(err.Error(), maxListErrorBytes),
	}}
}

// replaceObjects replaces the cached objects by those of a list. differs reports whether an object was added, changed or
// deleted. fits is false, and nothing changes, when the objects exceed the quota.
func (v *View) replaceObjects(objects []*Object, version string) (differs, fits bool) {
	v.mu.Lock()
	before := v.objects
	if !v.reserve(len(objects) - len(before)) {
		v.mu.Unlock()
		return false, false
	}
	v.version, v.objects = version, make(map[types.NamespacedName]*Object, len(objects))
	var different []*Object
	stateChanged := false
	for _, s := range objects {
		v.objects[s.namespacedName()] = s
		if have := before[s.namespacedName()]; have == nil || have.UID != s.UID || have.ResourceVersion != s.ResourceVersion {
			different = append(different, s, have)
			stateChanged = stateChanged || !have.hasStateOf(s)
		}
	}
	for key, s := range before {
		if v.objects[key] == nil {
			different, stateChanged = append(different, s), true
		}
	}
	v.reserve(len(v.objects) - len(objects)) // a list may contain an object twice
	v.mu.Unlock()
	if stateChanged {
		v.onStateChange()
	}
	v.notifyChanges(different...)
	return len(different) > 0, true
}

// reserve takes quota for more objects, or returns quota for fewer, and reports whether the quota suffices. The caller holds
// the lock.
func (v *View) reserve(objects int) bool { return v.dropped || v.quota.reserve(objects) }

// releaseQuota returns the quota of a view that is dropped.
func (v *View) releaseQuota() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reserve(-len(v.objects))
	v.dropped = true
}

// applyEvent applies an event of a watch and reports whether the quota suffices. An event that a list has overtaken changes
// nothing.
func (v *View) applyEvent(kind watch.EventType, s *Object) (fits bool) {
	v.mu.Lock()
	if !IsOlder(v.version, s.ResourceVersion) {
		v.mu.Unlock()
		return true
	}
	stateChanged, have := kind == watch.Deleted, v.objects[s.namespacedName()]
	switch kind {
	case watch.Added, watch.Modified:
		stateChanged = !have.hasStateOf(s)
		if have == nil && !v.reserve(1) {
			v.mu.Unlock()
			return false
		}
		v.objects[s.namespacedName()] = s
	case watch.Deleted:
		if have != nil {
			v.reserve(-1)
		}
		delete(v.objects, s.namespacedName())
	case watch.Bookmark, watch.Error:
		v.version = s.ResourceVersion
		v.mu.Unlock()
		return true
	}
	v.version = s.ResourceVersion
	v.mu.Unlock()
	if stateChanged {
		v.onStateChange()
	}
	v.notifyChanges(s, have)
	return true
}

// notifyChanges calls onChange once for each component of the objects, which include the previous states: the label may have changed. An object may
// be nil.
func (v *View) notifyChanges(objects ...*Object) {
	components := sets.New[api.Component]()
	for _, s := range objects {
		if s != nil {
			components.Insert(s.Component)
		}
	}
	for component := range components {
		v.onChange(component)
	}
}

// IsOlder compares resource versions. A text that is no resource version is not older than any version.
func IsOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
