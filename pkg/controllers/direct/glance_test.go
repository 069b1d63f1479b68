// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

var errDead = errors.New("no answer")

func userNamed(name string) user {
	return user{api.Serving, types.NamespacedName{Namespace: "team", Name: name}}
}

// viewer asks a glance, and notes who is to come again.
type viewer struct {
	glance
	look func() error

	mu    sync.Mutex
	again []string
}

func (v *viewer) ask(name string) error {
	return v.seen(time.Now().Add(-heartbeat), userNamed(name), v.look, func(u user) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.again = append(v.again, u.name.Name)
	})
}

// TestGlance holds that nobody waits for a look, that who has asked hears what came of it, however late, and that a look at
// a cluster that is not there is the reason for no other.
func TestGlance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, looks := make(chan error), 0
		v := &viewer{}
		v.look = func() error {
			looks++
			err := <-answer
			if err == nil {
				v.answered(time.Now())
			}
			return err
		}
		expect := func(name string, want error) {
			t.Helper()
			if got := v.ask(name); !errors.Is(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%s hears %v, want %v", name, got, want)
			}
		}
		expect("a", ErrLooking)
		expect("b", ErrLooking)
		answer <- errDead
		synctest.Wait()
		slices.Sort(v.again)
		if !slices.Equal(v.again, []string{"a", "b"}) {
			t.Errorf("%v are to come again", v.again)
		}
		expect("a", errDead)
		time.Sleep(time.Hour)
		expect("b", errDead)
		if looks != 1 {
			t.Errorf("there were %d looks, want one for both", looks)
		}
		expect("b", ErrLooking) // it wants to know whether that is still so
		answer <- nil
		synctest.Wait()
		expect("b", nil)
		expect("a", nil) // it has been seen a moment ago
		time.Sleep(heartbeat)
		expect("a", ErrLooking)
		answer <- nil
		synctest.Wait()
		time.Sleep(time.Hour) // the queue is long
		expect("a", nil)
		if looks != 3 {
			t.Errorf("there were %d looks, want 3", looks)
		}
	})
}

// TestGlanceDue holds that a cluster is asked as often as it should be, whenever somebody has looked after it in between.
func TestGlanceDue(t *testing.T) {
	at := time.Unix(10000, 0)
	g := &glance{}
	g.answered(at)
	for passed, want := range map[time.Duration]time.Duration{
		0: heartbeat, 4 * time.Second: heartbeat - 4*time.Second, heartbeat: time.Second, time.Hour: time.Second,
	} {
		if got := g.due(at.Add(passed), heartbeat); got != want {
			t.Errorf("%s after an answer it is due after %s, want %s", passed, got, want)
		}
	}
}

// TestGlanceManyDead holds that a worker is free at once, however many clusters do not answer.
func TestGlanceManyDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var dead []*viewer
		for i := range 2 * workers {
			d := &viewer{look: func() error { <-release; return errDead }}
			dead = append(dead, d)
			if err := d.ask(strconv.Itoa(i)); !errors.Is(err, ErrLooking) {
				t.Errorf("dead cluster %d: %v", i, err)
			}
		}
		good := &viewer{}
		good.look = func() error { good.answered(time.Now()); return nil }
		if err := good.ask("good"); !errors.Is(err, ErrLooking) {
			t.Errorf("the first answer is %v", err)
		}
		synctest.Wait()
		if err := good.ask("good"); err != nil {
			t.Errorf("the good cluster waits for dead ones: %v", err)
		}
		close(release)
		synctest.Wait()
		for i, d := range dead {
			if err := d.ask(strconv.Itoa(i)); !errors.Is(err, errDead) {
				t.Errorf("dead cluster %d: %v", i, err)
			}
		}
	})
}
