// Copyright Contributors to the Open Cluster Management project

// Package storyqueue gives the stories of a run their turns. A story acts until the story waits for its fleet to come to rest: then
// another story acts. The number of acting stories is limited, because stories share the processors, and at most one further story
// waits for its fleet, because fleets need memory. Long stories begin first, so that no long story runs alone at the end.
package storyqueue

import (
	"slices"
	"sync"
)

// restingStories is the number of stories that may wait for their fleets beside the acting stories.
const restingStories = 1

// Queue orders the turns of stories. All stories register before the first story awaits its turn.
type Queue struct {
	limit, concurrent int
	long              []string

	mu              sync.Mutex
	acting, resting int
	turns           []*Turn
}

// New returns a Queue that lets at most limit stories act. The long stories begin first, in the given order; other stories follow in the
// order of their registration. concurrent is the number of stories that can await their turns at the same time: with fewer than all
// stories, an earlier story may be unable to await its turn, and the first awaiting story begins.
func New(limit, concurrent int, long ...string) *Queue {
	return &Queue{limit: max(1, limit), concurrent: concurrent, long: long}
}

// state is the state of a Turn.
type state int

const (
	registered state = iota
	awaiting
	acting
	resting
	ended
)

// Turn is the turn of one story.
type Turn struct {
	queue *Queue
	rank  int
	state state
	begin chan struct{}
}

// Register adds a story.
func (q *Queue) Register(story string) *Turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	rank := slices.Index(q.long, story)
	if rank < 0 {
		rank = len(q.long)
	}
	turn := &Turn{queue: q, rank: rank, begin: make(chan struct{})}
	at := slices.IndexFunc(q.turns, func(t *Turn) bool { return t.rank > rank })
	if at < 0 {
		at = len(q.turns)
	}
	q.turns = slices.Insert(q.turns, at, turn)
	return turn
}

// Await returns when the story may act.
func (t *Turn) Await() {
	q := t.queue
	q.mu.Lock()
	t.state = awaiting
	q.dispatch()
	q.mu.Unlock()
	<-t.begin
}

// Rest ends the acting of the story: the story waits for its fleet. Later calls do nothing.
func (t *Turn) Rest() { t.enter(resting) }

// End ends the turn. Later calls do nothing.
func (t *Turn) End() { t.enter(ended) }

func (t *Turn) enter(next state) {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != acting && t.state != resting {
		return
	}
	if t.state == acting {
		q.acting--
	} else {
		q.resting--
	}
	t.state = next
	if next == resting {
		q.resting++
	}
	q.dispatch()
}

// dispatch begins turns as long as stories may act.
func (q *Queue) dispatch() {
	inOrder := q.concurrent >= len(q.turns)
	for _, t := range q.turns {
		if q.acting >= q.limit || q.acting+q.resting >= q.limit+restingStories {
			return
		}
		switch {
		case t.state == awaiting:
			t.state = acting
			q.acting++
			close(t.begin)
		case t.state == registered && inOrder:
			return // the story awaits its turn in a moment
		}
	}
}
