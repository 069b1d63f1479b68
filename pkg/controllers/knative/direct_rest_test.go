// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
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

// countedClusters counts the searches for a cluster, and has no cluster.
type countedClusters struct {
	Clusters
	searches int
}

func (c *countedClusters) FindCluster(context.Context, *unstructured.Unstructured) (*ReachableCluster, error) {
	c.searches++
	return nil, nil
}

// TestEventsOfClusterAreLimited holds that a cluster that changes an object without end causes a pass in each interval, that the first passes begin at
// once, and that a pass follows the last event.
func TestEventsOfClusterAreLimited(t *testing.T) {
	for name, config := range map[string]*unstructured.Unstructured{
		"installation": localServing(directFinalized), "removal": localServing(directFinalized, beingDeleted),
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, config)
			clusters := &countedClusters{Clusters: w.d.Clusters}
			clock := testclock.NewFakePassiveClock(time.Unix(10000, 0))
			w.d.Clusters, w.d.Clock = clusters, clock
			pass := func(after time.Duration) (retry time.Duration) {
				clock.SetTime(clock.Now().Add(after))
				result, err := w.reconcile()
				if err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter
			}
			const seconds, eventsPerSecond = 20, 100
			var retry time.Duration
			for event := range seconds * eventsPerSecond {
				retry = pass(time.Second / eventsPerSecond)
				if event < passBurst && clusters.searches != event+1 {
					t.Fatalf("event %d has to wait %s", event, retry)
				}
			}
			if most := passBurst + seconds; clusters.searches > most {
				t.Errorf("%d passes, want at most %d", clusters.searches, most)
			}
			before := clusters.searches
			if pass(retry); retry <= 0 || retry > passInterval || clusters.searches != before+1 {
				t.Errorf("%d passes follow the last event after %s", clusters.searches-before, retry)
			}
		})
	}
}

// TestForgottenInstallationKeepsNoViews holds that the views of an installation end with the resource: other resources keep the connection to the cluster.
func TestForgottenInstallationKeepsNoViews(t *testing.T) {
	w := newRenderingFixture(t)
	w.setAnswer("/api/v1/namespaces/knative-serving/configmaps", map[string]any{
		"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"resourceVersion": "9"}, "items": []any{},
	})
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: "knative-serving", Name: "self"}
	cluster := w.d.installations[name].cluster
	if len(cluster.StartedViews()) == 0 {
		t.Fatal("the pass starts no view: the test shows nothing")
	}
	w.d.Forget(name)
	if views := cluster.StartedViews(); len(views) > 0 {
		t.Errorf("the views of %v stay", views)
	}
}
