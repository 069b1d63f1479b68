// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// passVerbosity is the verbosity of the line that each pass logs.
	passVerbosity = 1
	// staleRetry is the time until the next pass after a write that the API server refused because the cache was behind.
	staleRetry = time.Second
)

// Wrap returns a reconciler that requeues stale writes of next, logs the passes of next, and begins no pass while another process may lead. describe returns the Subject of a
// request; the pass itself adds further fields with Describe.
func Wrap(next reconcile.Reconciler, describe func(reconcile.Request) Subject) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		if !mayBegin(ctx) {
			return reconcile.Result{RequeueAfter: leadershipRetry}, nil
		}
		start, subject := time.Now(), describe(request)
		result, err := next.Reconcile(context.WithValue(ctx, subjectKey{}, &subject), request)
		stale := EveryError(err, isStale)
		if stale {
			result, err = reconcile.Result{RequeueAfter: staleRetry}, nil
		}
		if logger := log.FromContext(ctx).V(passVerbosity); logger.Enabled() {
			duration := time.Since(start).Round(time.Millisecond)
			logger.Info("reconciled", append(subject.listKeysAndValues(), "result", nameResult(result, err, stale), "duration", duration.String())...)
		}
		return result, err
	})
}

// isStale reports whether err is a write that the API server refused because the cache was behind.
func isStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// EveryError reports whether each of the errors that err joins matches; err itself unless err joins errors.
func EveryError(err error, matches func(error) bool) bool {
	var joined interface {
		error
		Unwrap() []error
	}
	if !errors.As(err, &joined) {
		return matches(err)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !EveryError(e, matches) })
}

func nameResult(result reconcile.Result, err error, stale bool) string {
	switch {
	case errors.Is(err, reconcile.TerminalError(nil)):
		return "failed, not repeated"
	case err != nil:
		return "failed"
	case stale:
		return "conflict, requeued after " + result.RequeueAfter.String()
	case result.RequeueAfter > 0:
		return "requeued after " + result.RequeueAfter.String()
	default:
		return "done"
	}
}

// leadershipRetry is the time until the next attempt of a pass that does not begin because another process may lead.
const leadershipRetry = time.Second

type leadershipKey struct{}

// WithLeadership returns a context for passes that begin only while leads returns true.
func WithLeadership(ctx context.Context, leads func() bool) context.Context {
	return context.WithValue(ctx, leadershipKey{}, leads)
}

// mayBegin reports whether a pass may begin: without WithLeadership, each pass may.
func mayBegin(ctx context.Context) bool {
	leads, limited := ctx.Value(leadershipKey{}).(func() bool)
	return !limited || leads()
}
