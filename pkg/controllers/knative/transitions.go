// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const (
	// transitionInterval is the time between two transitions of a cluster between reachable and unreachable that the status of a
	// resource reports, after the first transitionBurst transitions. Each such transition is a write and an Event.
	transitionInterval = 20 * time.Second
	transitionBurst    = 3
)

// transitionLimiter limits the transitions of each resource. A restart of the manager permits transitionBurst transitions more.
type transitionLimiter struct {
	mu       sync.Mutex
	limiters map[types.NamespacedName]*rate.Limiter
}

// take returns 0 when the resource may report a transition now, and otherwise the time until the next report.
func (l *transitionLimiter) take(name types.NamespacedName, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.limiters[name]
	if limiter == nil {
		if l.limiters == nil {
			l.limiters = map[types.NamespacedName]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Every(transitionInterval), transitionBurst)
		l.limiters[name] = limiter
	}
	reservation := limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// forget ends the limit of a resource that is gone.
func (l *transitionLimiter) forget(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.limiters, name)
}

// isTransition reports whether the cluster of a resource became reachable or unreachable since the last status of the same spec.
func isTransition(last, now resourceStatus) bool {
	before := apimeta.FindStatusCondition(last.Conditions, api.TargetClusterResolved)
	after := apimeta.FindStatusCondition(now.Conditions, api.TargetClusterResolved)
	return before != nil && after != nil && before.Status != after.Status && last.ObservedGeneration == now.ObservedGeneration
}
