// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"testing"
	"time"
)

func TestPausesAfterLongPassesGrow(t *testing.T) {
	var p passPause
	now := time.Unix(1000, 0)
	for _, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
		want := time.Duration(seconds) * time.Second
		p.beginPause(now)
		if got := p.timeLeft(now); got != want {
			t.Errorf("a pause of %s, want %s", got, want)
		}
	}
	p.endPause()
	if got := p.timeLeft(now); got > 0 {
		t.Errorf("a pause of %s after a pass that ended in time", got)
	}
	p.beginPause(now)
	if got := p.timeLeft(now); got != firstPassPause {
		t.Errorf("a pause of %s, want %s", got, firstPassPause)
	}
}

// TestSlowClustersRest holds that a cluster on which a pass took too long holds no worker during the pause.
func TestSlowClustersRest(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized))
	to, err := w.d.Clusters.FindCluster(t.Context(), localServing())
	if err != nil {
		t.Fatal(err)
	}
	i := w.d.installationOf(localServing(), to)
	i.passPause.beginPause(w.d.Clock.Now())
	if result, err := w.reconcile(); err != nil || result.RequeueAfter != firstPassPause {
		t.Errorf("got %v, %v", result, err)
	}
	if len(w.requests) > 0 {
		t.Errorf("asked %q", w.requests)
	}
	i.passPause.endPause()
	if _, err := w.reconcile(); len(w.written()) == 0 {
		t.Errorf("nothing is installed after the pause: %v", err)
	}
}
