// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"hash/fnv"
	"slices"
	"time"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

const (
	// worseDelay is the time that a score must be lower than the written score before a write. The replacement of a pod is no
	// reason to move workloads.
	worseDelay = 15 * time.Second
	// betterDelay is the time without a lower score before a higher score is written. A cluster that fails again and again keeps
	// its low scores.
	betterDelay = time.Minute

	// validity is the time that Placements use scores without a renewal, as after the manager stopped.
	validity = 24 * time.Hour
	// renewalLead is the time between the renewal and the end of scores, plus or minus half of renewalSpread: clusters whose scores
	// were created at the same time are not renewed at the same time. Two writes a day and cluster are 0.07 a second for 3000
	// clusters.
	renewalLead   = 12 * time.Hour
	renewalSpread = 6 * time.Hour
)

// trend records how a cluster changed since the latest write of its scores. A zero time stands for no such change.
type trend struct {
	// worseSince is the first time that a score was lower than the written score. worseSince becomes zero after betterDelay without
	// a lower score.
	worseSince time.Time
	// stableSince is the time from which no score is lower, betterSince the time from which, besides, a score is higher.
	stableSince, betterSince time.Time
}

// determineWrite adds the current scores to the trend. write reports whether to write these scores; otherwise wait is the delay
// until the next decision, 0 for the next event.
func (t *trend) determineWrite(written, current []clusterv1alpha1.AddOnPlacementScoreItem, now time.Time) (write bool, wait time.Duration) {
	if slices.ContainsFunc(current, func(s clusterv1alpha1.AddOnPlacementScoreItem) bool { return s.Value < scoreValue(written, s.Name) }) {
		t.stableSince, t.betterSince = time.Time{}, time.Time{}
		wait = remainingDelay(&t.worseSince, worseDelay, now)
		return wait == 0, wait
	}
	if remainingDelay(&t.stableSince, betterDelay, now) == 0 {
		t.worseSince = time.Time{}
	}
	if slices.Equal(written, current) {
		t.betterSince = time.Time{}
		return false, 0
	}
	wait = remainingDelay(&t.betterSince, betterDelay, now)
	return wait == 0, wait
}

// remainingDelay returns the rest of a delay. A zero begin starts the delay now.
func remainingDelay(begin *time.Time, pause time.Duration, now time.Time) time.Duration {
	if begin.IsZero() {
		*begin = now
	}
	return max(0, begin.Add(pause).Sub(now))
}

func scoreValue(items []clusterv1alpha1.AddOnPlacementScoreItem, name string) int32 {
	for _, s := range items {
		if s.Name == name {
			return s.Value
		}
	}
	return -1 // lower than every score: an unwritten score is always higher
}

// renewalDelay returns the delay until the renewal of a cluster's scores that end at until.
func renewalDelay(cluster string, until, now time.Time) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(cluster)) // a hash returns no error
	offset := time.Duration(sum.Sum32()%uint32(renewalSpread/time.Second))*time.Second - renewalSpread/2
	return max(0, until.Add(offset-renewalLead).Sub(now))
}
