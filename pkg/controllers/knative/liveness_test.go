// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

var errDead = errors.New("no answer")

func userNamed(name string) resourceID {
	return resourceID{api.Serving, types.NamespacedName{Namespace: "team", Name: name}}
}

// probedCluster is a liveness with a cluster that answers with the function of the test; it records the resources that are enqueued.
type probedCluster struct {
	liveness
	answer func() error

	mu       sync.Mutex
	enqueued []string
}

// newProbedCluster returns a cluster on which resources install.
func newProbedCluster(names ...string) *probedCluster {
	v := &probedCluster{}
	v.users = func() (out []resourceID) {
		for _, name := range names {
			out = append(out, userNamed(name))
		}
		return out
	}
	v.enqueue = func(u resourceID) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.enqueued = append(v.enqueued, u.name.Name)
	}
	return v
}

func (v *probedCluster) check(name string) (pending bool, failure error) {
	return v.checkAnsweredSince(time.Now().Add(-polledProbeInterval), userNamed(name), v.answer)
}

// TestLiveness holds that no caller waits for a probe, that each resource gets the result of its probe, however late, and that
// the result of a probe of a dead cluster causes no other probe.
func TestLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, probes := make(chan error), 0
		v := newProbedCluster()
		v.answer = func() error {
			probes++
			err := <-answer
			if err == nil {
				v.recordAnswer(time.Now())
			}
			return err
		}
		expectPending := func(name string) {
			t.Helper()
			if pending, err := v.check(name); !pending || err != nil {
				t.Errorf("%s gets the result %v", name, err)
			}
		}
		expect := func(name string, want error) {
			t.Helper()
			if pending, err := v.check(name); pending || !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s gets the result %v, want %v; pending is %t", name, err, want, pending)
			}
		}
		expectPending("a")
		expectPending("b")
		answer <- errDead
		synctest.Wait()
		slices.Sort(v.enqueued)
		if !slices.Equal(v.enqueued, []string{"a", "b"}) {
			t.Errorf("%v are enqueued", v.enqueued)
		}
		expect("a", errDead)
		time.Sleep(time.Hour)
		expect("b", errDead)
		if probes != 1 {
			t.Errorf("there were %d probes, want one for both", probes)
		}
		expectPending("b") // it wants to know whether that is still so
		answer <- nil
		synctest.Wait()
		expect("b", nil)
		expect("a", nil) // it has been seen a moment ago
		time.Sleep(polledProbeInterval)
		expectPending("a")
		answer <- nil
		synctest.Wait()
		time.Sleep(time.Hour) // the queue is long
		expect("a", nil)
		if probes != 3 {
			t.Errorf("there were %d probes, want 3", probes)
		}
	})
}

// TestNextProbeAfter holds that a cluster is probed at its interval, whatever else probed the cluster in between.
func TestNextProbeAfter(t *testing.T) {
	at := time.Unix(10000, 0)
	g := &liveness{}
	g.recordAnswer(at)
	for passed, want := range map[time.Duration]time.Duration{
		0: polledProbeInterval, 4 * time.Second: polledProbeInterval - 4*time.Second, polledProbeInterval: time.Second, time.Hour: time.Second,
	} {
		if got := g.nextProbeAfter(at.Add(passed), polledProbeInterval); got != want {
			t.Errorf("%s after an answer it is due after %s, want %s", passed, got, want)
		}
	}
}

// TestLivenessOfManyDeadClusters holds that a worker is free at once, however many clusters do not answer.
func TestLivenessOfManyDeadClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var dead []*probedCluster
		for i := range 2 * workers {
			d := newProbedCluster()
			d.answer = func() error { <-release; return errDead }
			dead = append(dead, d)
			if pending, err := d.check(strconv.Itoa(i)); !pending {
				t.Errorf("dead cluster %d: %v", i, err)
			}
		}
		good := newProbedCluster()
		good.answer = func() error { good.recordAnswer(time.Now()); return nil }
		if pending, err := good.check("good"); !pending {
			t.Errorf("the first answer is %v", err)
		}
		synctest.Wait()
		if pending, err := good.check("good"); pending || err != nil {
			t.Errorf("the good cluster waits for dead clusters: %v", err)
		}
		close(release)
		synctest.Wait()
		for i, d := range dead {
			if _, err := d.check(strconv.Itoa(i)); !errors.Is(err, errDead) {
				t.Errorf("dead cluster %d: %v", i, err)
			}
		}
	})
}

// TestFailureReachesAllUsers holds that a cluster that stops answering causes one pass over each of its resources, without another probe, that the
// following failures cause passes only over the resources that wait, and that an answer causes none.
func TestFailureReachesAllUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, probes := newProbedCluster("a", "b"), 0
		answer := func(err error) func() error {
			return func() error {
				probes++
				if err == nil {
					v.recordAnswer(time.Now())
				}
				return err
			}
		}
		expectPasses := func(want ...string) {
			t.Helper()
			synctest.Wait()
			slices.Sort(v.enqueued)
			if !slices.Equal(v.enqueued, want) {
				t.Errorf("%v are enqueued, want %v", v.enqueued, want)
			}
			v.enqueued = nil
		}
		results := []error{v.probeAgain(answer(nil))}
		expectPasses()
		results = append(results, v.probeAgain(answer(errDead)))
		expectPasses("a", "b")
		v.answer = answer(errDead)
		for _, name := range []string{"a", "b"} {
			pending, err := v.check(name)
			results = append(results, err)
			if pending || probes != 2 {
				t.Errorf("%s waits for another probe: %t, after %d probes", name, pending, probes)
			}
		}
		if want := []error{nil, errDead, errDead, errDead}; !slices.Equal(results, want) {
			t.Errorf("the probes, and the passes, end with %v, want %v", results, want)
		}
		if pending, _ := v.check("a"); !pending {
			t.Error("the next pass starts no probe")
		}
		expectPasses("a")
	})
}

// TestResultDuringNextProbe holds that a resource gets the result of a probe while the next probe runs.
func TestResultDuringNextProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, release := newProbedCluster(), make(chan error)
		v.answer = func() error { return <-release }
		if pending, err := v.check("a"); !pending {
			t.Errorf("the first probe ends with %v", err)
		}
		release <- errDead
		synctest.Wait()
		go func() { _ = v.probeAgain(v.answer) }()
		synctest.Wait()
		if pending, err := v.check("a"); pending || !errors.Is(err, errDead) {
			t.Errorf("the result is %v; pending is %t", err, pending)
		}
		release <- nil
		synctest.Wait()
	})
}

// TestProbeTimer holds that a cluster that answers is probed at the interval, and that a failure, or stop, ends the probes.
func TestProbeTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := &probeTimer{}
		var probes atomic.Int32
		var isDead atomic.Bool
		expectProbes := func(passed time.Duration, want int32) {
			t.Helper()
			probes.Store(0)
			time.Sleep(passed)
			synctest.Wait()
			if got := probes.Load(); got != want {
				t.Errorf("%d probes in %s, want %d", got, passed, want)
			}
		}
		schedule := func() {
			timer.schedule(func() time.Duration { return polledProbeInterval }, func() error {
				probes.Add(1)
				if isDead.Load() {
					return errDead
				}
				return nil
			})
		}
		schedule()
		schedule() // replaces the first
		expectProbes(time.Minute, 6)
		isDead.Store(true)
		expectProbes(time.Minute, 1)
		isDead.Store(false)
		schedule()
		expectProbes(time.Minute, 6)
		timer.stop()
		schedule()
		expectProbes(time.Minute, 0)
	})
}

// TestTimeoutOfProbe holds that the first probe after the loss of a connection has less time. A cluster that returns may take longer for its answers.
func TestTimeoutOfProbe(t *testing.T) {
	lost := time.Now()
	for name, tc := range map[string]struct {
		answered, connectionLost time.Time
		failure                  error
		want                     time.Duration
	}{
		"no connection was lost":        {answered: lost, want: probeTimeout},
		"a loss after the last answer":  {answered: lost.Add(-time.Second), connectionLost: lost, want: lossProbeTimeout},
		"an answer after the loss":      {answered: lost.Add(time.Second), connectionLost: lost, want: probeTimeout},
		"a failed probe after the loss": {answered: lost.Add(-time.Second), connectionLost: lost, failure: errors.New("silent"), want: probeTimeout},
		"a probe failed without a loss": {answered: lost, failure: errors.New("silent"), want: probeTimeout},
	} {
		l := &liveness{users: func() []resourceID { return nil }}
		l.recordAnswer(tc.answered)
		l.finishProbe(tc.failure)
		if got := l.timeoutOfProbe(tc.connectionLost); got != tc.want {
			t.Errorf("%s: a probe has %s, want %s", name, got, tc.want)
		}
	}
}
