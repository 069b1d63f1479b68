// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Programs that watch files, such as their certificates, take inotify instances. A user has 128 by default, and some
// programs end when there is none left. So the labs of one process, such as those of parallel tests, wait for each other.
const (
	hubInstances     = 16 // API server, controller manager, and one for each program of OCM
	managedInstances = 8  // API server, controller manager and agent
	spokeInstances   = 7
	lightInstances   = 3
	// realNodeInstances are for containerd, kubelet, and those pods that run as root.
	realNodeInstances = 16
	// spareInstances are for everything else that the user runs.
	spareInstances = 16
	// defaultInstances are what a user has where that cannot be read.
	defaultInstances = 128
)

// instances is the budget of inotify instances that the labs of this process share: the kernel limits the instances of each user.
var instances = sync.OnceValue(func() *instanceBudget { //nolint:gochecknoglobals // the limit is one of the user, too
	limit := int64(defaultInstances)
	if text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			limit = n
		}
	}
	budget := max(1, limit-spareInstances)
	return &instanceBudget{size: budget, free: semaphore.NewWeighted(budget)}
})

type instanceBudget struct {
	size int64
	free *semaphore.Weighted
}

// reserve waits until the lab may use n more instances, which Close gives back. A lab that needs more than there are has
// all of them, and has to try.
func (l *Lab) reserve(ctx context.Context, n int) error {
	b := instances()
	weight := min(int64(n), b.size-l.reserved)
	if !b.free.TryAcquire(weight) {
		l.logf("waiting for other labs to end: this one needs %d of the %d inotify instances that labs may use", n, b.size)
		if err := b.free.Acquire(ctx, weight); err != nil {
			return fmt.Errorf("cannot wait for other labs to end: %w", err)
		}
	}
	l.reserved += weight
	return nil
}

func (l *Lab) release() {
	instances().free.Release(l.reserved)
	l.reserved = 0
}
