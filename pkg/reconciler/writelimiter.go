// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// WriteLimiter limits a kind of write, or the passes that lead to writes, for each object. The zero value permits the first writes. A restart of the
// manager permits burst writes more.
type WriteLimiter struct {
	mu       sync.Mutex
	limiters map[types.NamespacedName]*rate.Limiter
}

// Take returns 0 when the object may be written now, and otherwise the time until the next write. An object may be written burst times
// at once, and then once in every interval.
func (l *WriteLimiter) Take(name types.NamespacedName, now time.Time, interval time.Duration, burst int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.limiters[name]
	if limiter == nil {
		if l.limiters == nil {
			l.limiters = map[types.NamespacedName]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Every(interval), burst)
		l.limiters[name] = limiter
	}
	reservation := limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// Forget ends the limit of an object that is gone.
func (l *WriteLimiter) Forget(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.limiters, name)
}
