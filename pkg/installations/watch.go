// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// Watcher keeps the objects of a hub that describe installations.
type Watcher struct {
	hub       *Hub
	sources   []source
	informers []cache.SharedIndexInformer
	changed   chan struct{}
	// fleetsError is the error of the list of KnativeFleets.
	fleetsError error

	mu sync.Mutex
	// failures are the last errors of watches, by list.
	failures map[string]watchFailure
}

// watchFailure is the error of a watch, with the resource version that the informer had reached. A watch with a later version has recovered.
type watchFailure struct {
	err     error
	version string
}

// Watch lists the objects of the hub, and returns a Watcher of the lists that succeeded, with the errors of the others.
func (h *Hub) Watch(ctx context.Context, q Query) (*Watcher, []*ListError) {
	_, failed, listed := h.list(ctx, q)
	w := &Watcher{hub: h, sources: listed, changed: make(chan struct{}, 1), failures: map[string]watchFailure{}}
	for i := range listed {
		w.informers = append(w.informers, w.newInformer(&w.sources[i]))
	}
	for _, e := range failed {
		if e.Resource == (&source{resource: fleetv1alpha1.Resource(), namespace: q.Namespace}).describe() {
			w.fleetsError = e
		}
	}
	return w, failed
}

// newInformer returns the informer of a list. client-go repeats a watch whose connection is refused, as by a hub that is down, without a call
// of the error handler: the watch itself notes the error.
func (w *Watcher) newInformer(s *source) cache.SharedIndexInformer {
	type resource interface {
		Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	}
	dynamicClient, metadataClient := w.hub.Dynamic.Resource(s.resource).Namespace(s.namespace), w.hub.Metadata.Resource(s.resource).Namespace(s.namespace)
	var client any = w.hub.Dynamic
	var example runtime.Object = &unstructured.Unstructured{}
	var watched resource = dynamicClient
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return dynamicClient.List(ctx, o)
	}
	if s.metadataOnly {
		client, example, watched = w.hub.Metadata, &metav1.PartialObjectMetadata{}, metadataClient
		list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return metadataClient.List(ctx, o)
		}
	}
	selects := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = s.options.LabelSelector, s.options.FieldSelector
		return o
	}
	var informer cache.SharedIndexInformer
	informer = cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, selects(o)) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			out, err := watched.Watch(ctx, selects(o))
			if err != nil && ctx.Err() == nil {
				_ = w.noteFailure(s, informer, err) // the reflector gets the error
			}
			return out, err
		},
	}, client), example, cache.SharedIndexInformerOptions{ObjectDescription: s.resource.String()})
	return informer
}

// Run calls visit with all objects once the caches are full, and then after each change, until visit is done or fails, or the context
// ends.
func (w *Watcher) Run(ctx context.Context, visit func(Objects) (done bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	for n, informer := range w.informers {
		if err := w.prepare(informer, &w.sources[n], cancel); err != nil {
			return err
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	for _, informer := range w.informers {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return w.explainEnd(ctx)
		}
	}
	for {
		if done, err := visit(w.readObjects()); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return w.explainEnd(ctx)
		case <-w.changed:
		}
	}
}

// prepare notes the changes and the errors of an informer. A watch that the hub forbids ends the run, unless the result lacks a column alone.
func (w *Watcher) prepare(informer cache.SharedIndexInformer, s *source, end context.CancelCauseFunc) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.noteChange() }, UpdateFunc: func(any, any) { w.noteChange() }, DeleteFunc: func(any) { w.noteChange() },
	})
	return errors.Join(err, informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		explained := w.noteFailure(s, informer, err)
		if apierrors.IsForbidden(err) && !s.isOptional {
			end(explained)
		}
	}))
}

// noteChange has Run visit the objects.
func (w *Watcher) noteChange() {
	select {
	case w.changed <- struct{}{}:
	default: // a change is noted already
	}
}

// noteFailure keeps the error of a watch, has Run visit the objects, and returns the error for the user.
func (w *Watcher) noteFailure(s *source, informer cache.SharedIndexInformer, err error) error {
	explained := w.hub.explain("watch "+s.describe(), err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures[s.describe()] = watchFailure{explained, informer.LastSyncResourceVersion()}
	w.noteChange()
	return explained
}

// explainEnd returns the cause of the end, and the errors of watches that have not recovered.
func (w *Watcher) explainEnd(ctx context.Context) error {
	cause := context.Cause(ctx)
	errs := slices.DeleteFunc(w.Failures(), func(err error) bool { return errors.Is(cause, err) })
	return errors.Join(slices.Insert(errs, 0, cause)...)
}

// Failures returns the errors of watches that have not recovered, in the order of the lists: the state that Run visits may be old. A new
// failure has Run visit the objects.
func (w *Watcher) Failures() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []error
	for n, s := range w.sources {
		if f := w.failures[s.describe()]; f.err != nil && f.version == w.informers[n].LastSyncResourceVersion() {
			out = append(out, f.err)
		}
	}
	return out
}

// readObjects returns the objects of the caches.
func (w *Watcher) readObjects() Objects {
	out := Objects{Resources: map[api.Component][]*unstructured.Unstructured{}}
	for n, informer := range w.informers {
		for _, o := range informer.GetStore().List() {
			if object, isObject := o.(runtime.Object); isObject {
				out.add(&w.sources[n], object)
			}
		}
	}
	return out
}

// ChangeType says what happened to an installation, with the words of Kubernetes' watches.
type ChangeType string

const (
	// Added is the change of a new installation.
	Added ChangeType = "ADDED"
	// Modified is the change of an installation.
	Modified ChangeType = "MODIFIED"
	// Deleted is the change of an installation that is gone.
	Deleted ChangeType = "DELETED"
)

// Change is a change of an installation.
type Change struct {
	Type   ChangeType   `json:"type"`
	Object Installation `json:"object"`
}

// Diff returns the changes between two states, in the order of the installations. A new time alone, or another pending change, is no change
// of an installation.
func Diff(before, after []Installation) []Change {
	known := map[string]Installation{}
	for _, i := range before {
		known[i.id()] = i
	}
	var out []Change
	for _, i := range after {
		last, isKnown := known[i.id()]
		delete(known, i.id())
		last.Since, last.PendingChange, last.isChangeRefused = i.Since, i.PendingChange, i.isChangeRefused
		switch {
		case !isKnown:
			out = append(out, Change{Added, i})
		case last != i:
			out = append(out, Change{Modified, i})
		}
	}
	for _, i := range before {
		if _, isGone := known[i.id()]; isGone {
			out = append(out, Change{Deleted, i})
		}
	}
	return out
}

// Text returns a change as a line.
func (c *Change) Text() string {
	i := &c.Object
	out := fmt.Sprintf("%-8s %s %s %s %s %s %s %s", c.Type, i.Cluster, i.Component, i.Mode,
		describeStep(i.Version, i.NextVersion), describeStep(shortHash(i.Revision), shortHash(i.NextRevision)), i.Ready, i.Reason)
	if i.Message != "" {
		out += ": " + i.Message
	}
	if i.Paused {
		out += " (paused)"
	}
	return out
}
