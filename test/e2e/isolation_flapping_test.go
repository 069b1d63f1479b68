// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
)

const (
	// flappingName is the ClusterProfile and the KnativeServing of the cluster that is reachable and unreachable in turns.
	flappingName = "flapping"
	// reportBurst reports of reachability come at once, and then one report in each reportInterval.
	reportBurst, reportInterval = 3, 20 * time.Second
	// probePath is the path of a probe, by which the manager sees whether the cluster is reachable.
	probePath = "/api/v1/namespaces/kube-system"
	// flapPause is the rest of a turn after the first probe.
	flapPause = 2 * time.Second
	// maxFlapTime bounds all turns together: on a machine that is too slow, the changes never exceed the permitted reports, and the story fails.
	maxFlapTime = loadFactor * 2 * time.Minute
)

// flappingCluster is a cluster behind a proxy that refuses and forwards requests in turns.
type flappingCluster struct {
	manyClusters
	proxy *faultproxy.Proxy
	// probes counts the probes of the manager in the present turn.
	probes atomic.Int32
	// since and until are the times of the first and of the last turn, and changes is the number of turns that the manager has seen.
	since, until time.Time
	changes      int
	turns        sync.WaitGroup
}

// startFlapping installs on a cluster behind a proxy, and then makes the cluster unreachable and reachable in turns.
func (c manyClusters) startFlapping(t *testing.T, cluster *lab.Cluster) *flappingCluster {
	t.Helper()
	f := &flappingCluster{manyClusters: c, proxy: startProxy(t, cluster)}
	c.token(t, flappingName, &lab.Cluster{URL: f.proxy.URL, CA: f.proxy.CA}, cluster.Credential.Token)
	c.apply(t, api.Serving, flappingName, kourier())
	c.ready(t, api.Serving, flappingName)
	f.since = time.Now()
	f.turns.Go(f.takeTurns)
	return f
}

// permittedReports is the number of reports that the manager may have written between the first and the last turn.
func (f *flappingCluster) permittedReports() int {
	return reportBurst + int(f.until.Sub(f.since)/reportInterval)
}

// takeTurns makes the cluster unreachable and reachable until the manager has seen more changes than the permitted reports.
func (f *flappingCluster) takeTurns() {
	defer f.proxy.Inject(nil)
	refuse := func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
	forward := func(w http.ResponseWriter, r *http.Request, forward http.Handler) { forward.ServeHTTP(w, r) }
	for f.until = f.since; f.changes <= f.permittedReports(); f.until = time.Now() {
		if !f.turn(refuse) || !f.turn(forward) {
			return
		}
	}
}

// turn serves the requests of the manager in another way, and reports whether the manager has probed the cluster in time.
func (f *flappingCluster) turn(serve faultproxy.Fault) bool {
	f.proxy.Inject(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.URL.Path == probePath {
			f.probes.Add(1)
		}
		serve(w, r, forward)
	})
	f.probes.Store(0)
	f.proxy.Disconnect()
	for f.probes.Load() == 0 {
		if time.Since(f.since) > maxFlapTime {
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(flapPause)
	f.changes++
	return true
}

// checkReports waits for the end of the turns, and holds that the manager has reported as often as permitted, and the last state.
func (f *flappingCluster) checkReports(t *testing.T) {
	t.Helper()
	f.turns.Wait()
	writes := f.writes(t, "knativeservings/status", flappingName)
	reports, events := countTransitions(t, writes), len(f.writes(t, "events", flappingName+"."))
	permitted, took := f.permittedReports(), f.until.Sub(f.since).Round(time.Second)
	t.Logf("%d changes in %s: %d writes of the status, %d reports, %d writes of Events", f.changes, took, len(writes), reports, events)
	if f.changes <= permitted { // a manager without a limit could not have reported too often
		t.Errorf("the manager has seen %d changes in %s only, want more than the %d permitted reports", f.changes, took, permitted)
	}
	if reports > permitted || reports == 0 {
		t.Errorf("%d reports in %s, want 1 to %d", reports, took, permitted)
	}
	if events > 2*reports { // a return has Events of two conditions
		t.Errorf("%d writes of Events for %d reports", events, reports)
	}
	f.ready(t, api.Serving, flappingName)
}

// writes returns the writes between the first and the last turn of objects whose names begin with the prefix.
func (f *flappingCluster) writes(t *testing.T, resource, prefix string) []lab.Change {
	t.Helper()
	changes, err := f.Hub.Changes()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(changes, func(c lab.Change) bool {
		during := c.Time.After(f.since) && c.Time.Before(f.until)
		return !during || c.Resource != resource || !strings.HasPrefix(c.Name, prefix)
	})
}

// countTransitions counts the writes of a status by which a reachable cluster became unreachable, or the other way round. Another
// write may only word the cause differently: a pass and a probe fail in different ways.
func countTransitions(t *testing.T, writes []lab.Change) int {
	t.Helper()
	count, reachable := 0, metav1.ConditionTrue
	for i := range writes {
		var written struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(writes[i].Content, &written); err != nil {
			t.Fatal(err)
		}
		resolved := apimeta.FindStatusCondition(written.Status.Conditions, api.TargetClusterResolved)
		if resolved != nil && resolved.Status != reachable {
			count, reachable = count+1, resolved.Status
		}
	}
	return count
}
