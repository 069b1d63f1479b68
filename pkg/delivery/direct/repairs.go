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
	// firstPause and longestPause bound the time between two repairs of an object; each doubles the last, and an object that
	// was not repaired for twice the longest starts over.
	firstPause, longestPause = 3 * time.Second, 4 * time.Minute
	// loopPause is the pause from which on somebody is taken to change the object for ever: the fifth in a row.
	loopPause = 48 * time.Second
)

// repairs remembers which objects were repaired lately, so that two who disagree do not write in a loop.
type repairs struct {
	clock clock.PassiveClock
	of    map[render.ObjectID]repair
}

// repair is the last one of an object, and the pause after it.
type repair struct {
	at    time.Time
	pause time.Duration
}

func newRepairs(clock clock.PassiveClock) repairs {
	return repairs{clock: clock, of: map[render.ObjectID]repair{}}
}

// wait is how long the next repair of an object has to wait; not positive when it need not.
func (r *repairs) wait(id render.ObjectID) time.Duration {
	last, ok := r.of[id]
	if !ok {
		return 0
	}
	return last.at.Add(last.pause).Sub(r.clock.Now())
}

// note remembers a repair, and tells whether the object is repaired again and again.
func (r *repairs) note(id render.ObjectID) (loop bool) {
	now, last := r.clock.Now(), r.of[id]
	if now.Sub(last.at) > 2*longestPause {
		last.pause = 0
	}
	pause := min(max(2*last.pause, firstPause), longestPause)
	r.of[id] = repair{at: now, pause: pause}
	return pause >= loopPause
}

// repaired notes what the plan has repaired, and tells of it.
func (i *Installation) repaired(p *plan) (texts []string, loop bool) {
	for id, d := range p.drifted {
		if i.failing[id] != nil {
			continue // it was not
		}
		texts = append(texts, fmt.Sprintf("%s %s", id, d))
		loop = i.repairs.note(id) || loop
	}
	slices.Sort(texts)
	return texts, loop
}
