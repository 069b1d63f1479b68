// Copyright Contributors to the Open Cluster Management project

package storyqueue

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// run is a Queue whose stories await their turns in goroutines.
type run struct {
	turns map[string]*Turn
	order []string
}

// newRun registers the stories, and lets the stories of awaiting await their turns, in that order.
func newRun(q *Queue, stories []string) *run {
	r := &run{turns: map[string]*Turn{}, order: stories}
	for _, story := range stories {
		r.turns[story] = q.Register(story)
	}
	return r
}

// await lets stories await their turns, in this order.
func (r *run) await(stories ...string) {
	for _, story := range stories {
		t := r.turns[story]
		t.queue.mu.Lock()
		t.state = awaiting
		t.queue.dispatch()
		t.queue.mu.Unlock()
	}
}

// begun lists the stories whose turns have begun.
func (r *run) begun() []string {
	var out []string
	for _, story := range r.order {
		select {
		case <-r.turns[story].begin:
			out = append(out, story)
		default:
		}
	}
	return out
}

func (r *run) check(t *testing.T, when string, want ...string) {
	t.Helper()
	slices.Sort(want)
	got := r.begun()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s these stories have begun (-want +got):\n%s", when, diff)
	}
}

func TestLongStoriesBeginFirst(t *testing.T) {
	r := newRun(New(2, 9, "long", "longer", "absent"), []string{"a", "b", "longer", "c", "long"})
	r.await("a", "b")
	r.check(t, "before the long stories await their turns")
	r.await("longer", "c")
	r.check(t, "before the longest story awaits its turn")
	r.await("long")
	r.check(t, "when all stories await their turns", "long", "longer")
	r.turns["long"].End()
	r.check(t, "after the end of a story", "a", "long", "longer")
	r.turns["long"].End()
	r.check(t, "after the same end", "a", "long", "longer")
	r.turns["longer"].End()
	r.turns["a"].End()
	r.check(t, "after the end of two further stories", "a", "b", "c", "long", "longer")
}

// TestFewConcurrentStories holds that stories begin although an earlier story cannot await its turn.
func TestFewConcurrentStories(t *testing.T) {
	r := newRun(New(2, 2, "long"), []string{"a", "b", "long"})
	r.await("b", "a")
	r.check(t, "when two stories await their turns", "a", "b")
}

func TestRestingStories(t *testing.T) {
	r := newRun(New(2, 9), []string{"a", "b", "c", "d", "e"})
	r.await("a", "b", "c", "d", "e")
	r.check(t, "at first", "a", "b")
	r.turns["c"].Rest()
	r.turns["a"].Rest()
	r.turns["a"].Rest()
	r.check(t, "while a story rests", "a", "b", "c")
	r.turns["b"].Rest()
	r.check(t, "while two stories rest", "a", "b", "c")
	r.turns["a"].End()
	r.check(t, "while one story rests again", "a", "b", "c", "d")
	r.turns["c"].End()
	r.check(t, "after the end of an acting story", "a", "b", "c", "d", "e")
}

// TestAwait holds that Await returns with the turn.
func TestAwait(t *testing.T) {
	q := New(1, 2)
	first, second := q.Register("first"), q.Register("second")
	done := make(chan struct{})
	go func() {
		second.Await()
		close(done)
	}()
	first.Await()
	first.End()
	<-done
	second.End()
}

// TestNoLimit holds that one story acts even with a limit of 0.
func TestNoLimit(t *testing.T) {
	turn := New(0, 1).Register("a")
	turn.Await()
	turn.End()
}
