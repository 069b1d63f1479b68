// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	// firstPause and longestPause bound the time between two repairs of an object. Each pause is twice the pause before. An
	// object without a repair for twice the longest pause starts over.
	firstPause, longestPause = 3 * time.Second, 4 * time.Minute
	// loopPause is the pause from which on another client is assumed to change the object forever: the fifth in a row.
	loopPause = 48 * time.Second
)

// repairHistory records recent repairs, so that two clients that disagree about an object do not write in a loop.
type repairHistory struct {
	clock clock.PassiveClock
	last  map[render.ObjectID]repair
}

// repair is the last repair of an object, with the pause after that repair.
type repair struct {
	at    time.Time
	pause time.Duration
}

func newRepairHistory(clock clock.PassiveClock) repairHistory {
	return repairHistory{clock: clock, last: map[render.ObjectID]repair{}}
}

// remainingPause returns how long the next repair of an object has to wait; not positive when the repair is due.
func (r *repairHistory) remainingPause(id render.ObjectID) time.Duration {
	last, ok := r.last[id]
	if !ok {
		return 0
	}
	return last.at.Add(last.pause).Sub(r.clock.Now())
}

// recordRepair records a repair, and reports whether the object is repaired repeatedly.
func (r *repairHistory) recordRepair(id render.ObjectID) (loop bool) {
	now, last := r.clock.Now(), r.last[id]
	if now.Sub(last.at) > 2*longestPause {
		last.pause = 0
	}
	pause := min(max(2*last.pause, firstPause), longestPause)
	r.last[id] = repair{at: now, pause: pause}
	return pause >= loopPause
}

// recordRepairs records the repairs of a plan and returns a text for each.
func (i *Installation) recordRepairs(p *changePlan) (texts []string, loop bool) {
	for id, d := range p.drifted {
		if i.failedObjects[id] != nil {
			continue // the repair failed
		}
		texts = append(texts, fmt.Sprintf("%s %s", id, d))
		loop = i.repairs.recordRepair(id) || loop
	}
	slices.Sort(texts)
	return texts, loop
}
