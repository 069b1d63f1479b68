// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// servedPoll is the interval at which the hub is asked for an optional kind until the hub serves the kind.
const servedPoll = 10 * time.Second

// optionalKind is the cache of a kind that a hub need not serve, and may serve at any time.
type optionalKind struct {
	discovery discovery.DiscoveryInterface
	kind      schema.GroupVersionKind
	resource  string
	informer  cache.SharedIndexInformer
	// started reports whether the hub serves the kind, so that the cache is being filled.
	started atomic.Bool
	// failure is the last error of filling the cache.
	failure atomic.Pointer[error]

	mu sync.Mutex
	// reported is the class of the error of checkFilled that observers know.
	reported  errorClass
	observers []func()
}

// Informer returns the informer of the kind.
func (k *optionalKind) Informer() cache.SharedIndexInformer { return k.informer }

// pluralKind returns the name of the objects in messages.
func (k *optionalKind) pluralKind() string { return k.kind.Kind + "s" }

// recordErrors makes the informer record its errors.
func (k *optionalKind) recordErrors() {
	err := k.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
			return // the informer lists again
		}
		k.failure.Store(&err)
		k.reportErrorClass()
		log.FromContext(ctx).Info(k.pluralKind()+" cannot be listed or watched, and the manager tries again", "cause", err.Error())
	})
	if err != nil {
		k.failure.Store(&err) // only a started informer refuses the handler
	}
}

// fillCache starts the informer.
func (k *optionalKind) fillCache(ctx context.Context) {
	k.started.Store(true)
	k.reportErrorClass()
	go k.informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), k.informer.HasSynced) {
			k.reportErrorClass()
		}
	}()
}

// start fills the cache at once where the hub serves the kind, and otherwise as soon as the hub does. synced is nil in the second
// case.
func (k *optionalKind) start(ctx context.Context) (synced cache.InformerSynced, err error) {
	served, err := awaitServed(ctx, k.isServed)
	if err != nil {
		return nil, err
	}
	if !served {
		go k.startWhenServed(ctx)
		return nil, nil
	}
	k.fillCache(ctx)
	return k.informer.HasSynced, nil
}

// awaitServed reports whether the hub serves a kind, and repeats a failed request until the context ends.
func awaitServed(ctx context.Context, isServed func() (bool, error)) (served bool, err error) {
	err = newProbeBackoff().DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		var failure error
		if served, failure = isServed(); failure != nil {
			log.FromContext(ctx).Info("a request to the hub failed and is repeated", "cause", failure.Error())
		}
		return failure == nil, nil
	})
	return served, err
}

func (k *optionalKind) startWhenServed(ctx context.Context) {
	err := wait.PollUntilContextCancel(ctx, servedPoll, false, func(context.Context) (bool, error) {
		served, err := k.isServed()
		return served && err == nil, nil
	})
	if err == nil {
		k.fillCache(ctx)
	}
}

func (k *optionalKind) isServed() (bool, error) {
	resources, err := k.discovery.ServerResourcesForGroupVersion(k.kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot ask the hub whether it has %s: %w", k.pluralKind(), err)
	}
	return slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource }), nil
}

// checkFilled returns nil when the cache is full. The error is an apimeta.NoKindMatchError until the hub serves the kind, and then,
// until the cache is full, the error of filling the cache.
func (k *optionalKind) checkFilled() error {
	switch synced := k.informer.HasSynced(); {
	case synced:
		return nil
	case k.started.Load():
		if failure := k.failure.Load(); failure != nil {
			return fmt.Errorf("cannot list %s: %w", k.pluralKind(), *failure)
		}
		return apierrors.NewServiceUnavailable("the " + k.pluralKind() + " are being listed")
	}
	return &apimeta.NoKindMatchError{GroupKind: k.kind.GroupKind(), SearchedVersions: []string{k.kind.Version}}
}

// errorClass is the class of an error of reading an optional kind. Readers report the class, and not the text: the text may change from
// one attempt to the next.
type errorClass string

const (
	classNotServed errorClass = ""
	classNone      errorClass = "no error"
)

func classifyError(err error) errorClass {
	switch {
	case err == nil:
		return classNone
	case apimeta.IsNoMatchError(err):
		return classNotServed
	}
	return errorClass("error " + string(apierrors.ReasonForError(err)))
}

// reportErrorClass calls the observers when the class of the error of checkFilled has changed.
func (k *optionalKind) reportErrorClass() {
	class := classifyError(k.checkFilled())
	k.mu.Lock()
	changed := class != k.reported
	k.reported = class
	observers := slices.Clone(k.observers)
	k.mu.Unlock()
	if !changed {
		return
	}
	for _, observe := range observers {
		observe()
	}
}

// NewErrorSource returns a source that enqueues the requests whenever the class of the error of reading the kind changes, also when the
// error ends: an empty cache that becomes full sends no event. requests gets no object.
func (k *optionalKind) NewErrorSource(requests handler.MapFunc) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.observers = append(k.observers, func() {
			for _, request := range requests(ctx, nil) {
				queue.Add(request)
			}
		})
		return nil
	})
}
