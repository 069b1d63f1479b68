// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxLists bounds the lists of all clusters at a time, apart from the first lists of views: the lists of a thousand clusters at once would take each
// other's processor time until all lists exceed their time. slotTime bounds how long a list counts, so that clusters without an answer keep other
// clusters waiting for seconds only.
const (
	maxLists = 64
	slotTime = 2 * time.Second
)

// ListLimit bounds how many lists after the first lists run at a time, over all clusters, and how many begin in a time at rest. A nil ListLimit is
// no bound.
type ListLimit struct {
	slots chan struct{}
	// clusters is the number of polled clusters.
	clusters atomic.Int32
}

// NewListLimit returns a limit for the lists of all clusters.
func NewListLimit() *ListLimit { return &ListLimit{slots: make(chan struct{}, maxLists)} }

// addClusters adds a number of polled clusters, which may be negative.
func (l *ListLimit) addClusters(number int32) {
	if l != nil {
		l.clusters.Add(number)
	}
}

// longestInterval returns the longest time between two lists of a place. Between 500 and 1,500 polled clusters the lists a second at rest stay the
// same.
func (l *ListLimit) longestInterval() time.Duration {
	if l == nil {
		return maxPollInterval
	}
	return min(max(maxPollInterval, time.Duration(l.clusters.Load())*clusterPollTime), maxFleetPollInterval)
}

// acquire waits until a list may begin. The caller calls release after the list.
func (l *ListLimit) acquire(ctx context.Context) (release func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-l.slots })
	timer := time.AfterFunc(slotTime, free)
	return func() {
		timer.Stop()
		free()
	}, nil
}
