// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestRolloutWithoutHub stops the hub's API server in the middle of a rollout to one cluster at a time. The rollout continues with
// the next cluster, and no cluster gets a spec that its wave did not reach.
func TestRolloutWithoutHub(t *testing.T) {
	startNightlyStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 4, StatusSyncInterval: statusSync})
	m := newTeam(t, f, "platform")
	m.createPlacement(t)
	available(t, f, []api.Component{api.Serving}, f.Managed...)
	m.setRolloutStrategy(t, `{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"3s"}}`)
	before := m.specHash(t)
	eventually(t, "all clusters have completed the first spec", 3*time.Minute, m.checkCompleted(before, len(f.Managed)))
	settled(t, f, api.Serving, f.Managed...)
	pods := map[string][]string{}
	m.all(func(c *lab.Cluster) { pods[c.Name] = runningPods(t, connect(t, c)) })

	w := newSpecWatch(m, before)
	w.followRestartedWatch(t, w.start, w.see)
	eventually(t, "the watch shows every cluster", time.Minute, w.checkCarrying(before, len(f.Managed)))
	m.patchDefault(t, fmt.Sprintf(`{"spec":{"config":{"deployment":{"progress-deadline":%q}}}}`, marker))
	after := m.specHash(t)
	eventually(t, "two clusters have the new spec", 3*time.Minute, w.checkCarrying(after, 2))
	m.interruptHub(t, func() {
		if n := w.countClusters(after); n == len(f.Managed) {
			t.Error("the API server stopped too late to prove anything")
		}
	})
	eventually(t, "all clusters have completed the new spec", 6*time.Minute, m.checkCompleted(after, len(f.Managed)))
	w.checkObserved(t)
	settled(t, f, api.Serving, f.Managed...)
	m.all(func(c *lab.Cluster) {
		if diff := cmp.Diff(pods[c.Name], runningPods(t, connect(t, c))); diff != "" {
			t.Errorf("%s: pods were restarted (-before +after):\n%s", c.Name, diff)
		}
	})
}

// interruptHub kills the hub's API server, waits until the manager reports the outage, runs a check, and starts the API server.
func (m team) interruptHub(t *testing.T, check func()) {
	t.Helper()
	if err := m.Kill(hubServer); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager is not ready", 3*time.Minute, func(ctx context.Context) error {
		if m.Probe(ctx, harness.Manager, "/readyz") == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	alive(t, m.Fleet)
	check()
	if err := m.StartHubServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager is ready", 2*time.Minute, func(ctx context.Context) error { return m.Probe(ctx, harness.Manager, "/readyz") })
}
