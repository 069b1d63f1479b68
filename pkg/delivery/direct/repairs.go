// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// repairHistory records recent repairs, so that two clients that disagree about an object do not write in a loop.
type repairHistory struct {
	clock clock.PassiveClock
	last  map[render.ObjectID]repair
}

// repair is the last repair of an object, with the interval until the next repair.
type repair struct {
	at       time.Time
	interval time.Duration
}

func newRepairHistory(clock clock.PassiveClock) repairHistory {
	return repairHistory{clock: clock, last: map[render.ObjectID]repair{}}
}

// remainingInterval returns how long the next repair of an object has to wait; not positive when the repair is due.
func (r *repairHistory) remainingInterval(id render.ObjectID) time.Duration {
	last, ok := r.last[id]
	if !ok {
		return 0
	}
	return last.at.Add(last.interval).Sub(r.clock.Now())
}

// recordRepair records a repair, and reports whether the object is repaired repeatedly.
func (r *repairHistory) recordRepair(id render.ObjectID) (loop bool) {
	now, last := r.clock.Now(), r.last[id]
	if now.Sub(last.at) > 2*delivery.LongestRepairInterval {
		last.interval = 0
	}
	interval := min(max(2*last.interval, delivery.FirstRepairInterval), delivery.LongestRepairInterval)
	r.last[id] = repair{at: now, interval: interval}
	return interval >= delivery.DriftLoopInterval
}

// recordRepairs records the executed repairs of a plan and returns a text for each.
func (i *Installation) recordRepairs(p *changePlan) (texts []string, loop bool) {
	for id, d := range p.drifted {
		if !p.applied[id] {
			continue // the cluster refused the repair, or an earlier stage failed
		}
		texts = append(texts, fmt.Sprintf("%s %s", id, d))
		loop = i.repairs.recordRepair(id) || loop
	}
	slices.Sort(texts)
	return texts, loop
}
