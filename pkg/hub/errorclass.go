// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

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
