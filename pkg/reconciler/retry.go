// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstRetry is the pause after the first failed pass over an object. Each further failure doubles the pause.
	firstRetry = 5 * time.Millisecond
	// longestRetry is the longest pause without jitter. A queue's default is 1,000 seconds: after an outage of the hub, the fleet
	// would wait for the longest pause.
	longestRetry = 40 * time.Second
	// retryJitter lengthens each pause by up to this share, so that objects that failed together do not return together.
	retryJitter = 0.5
)

// NewRateLimiter returns the pauses after failed passes, for each object of a queue.
func NewRateLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return jitteredRateLimiter[T]{workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstRetry, longestRetry)}
}

type jitteredRateLimiter[T comparable] struct{ workqueue.TypedRateLimiter[T] }

// When implements workqueue.TypedRateLimiter.
func (l jitteredRateLimiter[T]) When(item T) time.Duration {
	return wait.Jitter(l.TypedRateLimiter.When(item), retryJitter)
}

// Options returns the options of a controller with that number of workers.
func Options(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: NewRateLimiter[reconcile.Request]()}
}

// Soonest returns the shorter of two waits, of which 0 is none.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
