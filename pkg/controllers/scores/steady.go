// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"hash/fnv"
	"slices"
	"time"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

const (
	// worsePause is for how long something must have been worse than what is written before that is. A pod that is
	// replaced is no reason to move.
	worsePause = 15 * time.Second
	// betterPause is for how long everything must have been better than what is written before that is. Who fails again and
	// again stays down.
	betterPause = time.Minute

	// validity is how long Placements believe scores that nobody renews, as when the manager is gone.
	validity = 24 * time.Hour
	// renewal is how long before their end scores are renewed, give or take half of spread: clusters whose scores were
	// made at the same time are not renewed at the same time. Two writes a day and cluster are 0.07 a second for 3000.
	renewal = 12 * time.Hour
	spread  = 6 * time.Hour
)

// trend is what a cluster has been like since its scores were written. Times are zero when there is nothing to tell.
type trend struct {
	// worse is when something was first seen to be worse; forgotten when nothing was for a while.
	worse time.Time
	// sound is since when nothing is worse, better since when something is better besides.
	sound, better time.Time
}

// see takes in what is seen now, and says whether to write it, or else when to look again; 0 means at the next event.
func (t *trend) see(written, seen []clusterv1alpha1.AddOnPlacementScoreItem, now time.Time) (write bool, wait time.Duration) {
	if slices.ContainsFunc(seen, func(s clusterv1alpha1.AddOnPlacementScoreItem) bool { return s.Value < valueOf(written, s.Name) }) {
		t.sound, t.better = time.Time{}, time.Time{}
		wait = remains(&t.worse, worsePause, now)
		return wait == 0, wait
	}
	if remains(&t.sound, betterPause, now) == 0 {
		t.worse = time.Time{}
	}
	if slices.Equal(written, seen) {
		t.better = time.Time{}
		return false, 0
	}
	wait = remains(&t.better, betterPause, now)
	return wait == 0, wait
}

// remains is how much of a pause is left. It begins now unless it has before.
func remains(begin *time.Time, pause time.Duration, now time.Time) time.Duration {
	if begin.IsZero() {
		*begin = now
	}
	return max(0, begin.Add(pause).Sub(now))
}

func valueOf(items []clusterv1alpha1.AddOnPlacementScoreItem, name string) int32 {
	for _, s := range items {
		if s.Name == name {
			return s.Value
		}
	}
	return -1 // less than any: what is not written yet is better
}

// renewIn is after how long the scores of a cluster that end then are to be renewed.
func renewIn(cluster string, until, now time.Time) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(cluster)) // a hash takes everything
	offset := time.Duration(sum.Sum32()%uint32(spread/time.Second))*time.Second - spread/2
	return max(0, until.Add(offset-renewal).Sub(now))
}
