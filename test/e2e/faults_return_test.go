// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
	"open-cluster-management.io/knative-addon/test/lab"
)

// returningClusters is the number of clusters of TestMassReturn.
const returningClusters = 40

// returnLimit is the limit of each client of the manager in TestMassReturn: the returns need many times as many requests at once.
var returnLimit = harness.RateLimit{QPS: 10, Burst: 20}

// TestMassReturn makes all clusters of a Placement unreachable, and lets all return at once: without an edit, and with an edit of the
// configuration of all clusters during their absence. The clusters are played, so that the story proves what the hub gets, and no
// change on a cluster.
func TestMassReturn(t *testing.T) {
	startNightlyStory(t)
	f := ownFleet(t, lab.Options{}, returnLimit.Arguments()...)
	m := playTeam(t, f, returningClusters)
	m.createPlacement(t)
	m.awaitInstalled(t, m.specHash(t))
	installed := time.Now()

	t.Run("a return alone changes no spec", func(t *testing.T) { returnUnedited(t, m) })
	t.Run("an edit reaches all clusters after their return", func(t *testing.T) { returnEdited(t, m) })
	m.checkRequests(t, installed)
	if err := m.agents.Err(); err != nil {
		t.Errorf("a played agent has failed: %v", err)
	}
}

// playedTeam is a team on a hub with played clusters.
type playedTeam struct {
	team

	clusters *played.Clusters
	agents   *played.Agents
}

// playTeam lets played clusters join the hub, until the invariants are checked, and labels the clusters for the Placement of the team.
func playTeam(t *testing.T, f *harness.Fleet, clusters int) playedTeam {
	t.Helper()
	kube, err := kubernetes.NewForConfig(f.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	closeAfterInvariants(t, f.Hub, cancel)
	m := playedTeam{team: newTeam(t, f, "platform"), clusters: &played.Clusters{
		Client: f.Clusters, Kube: kube, ReportError: func(err error) { t.Logf("a played cluster: %v", err) },
	}}
	if m.agents, err = played.StartAgents(ctx, f.Works); err != nil {
		t.Fatal(err)
	}
	if err := m.clusters.JoinHub(ctx, clusters); err != nil {
		t.Fatal(err)
	}
	m.forAll(t, func(ctx context.Context, cluster string) error {
		_, err := f.Clusters.ClusterV1().ManagedClusters().Patch(ctx, cluster, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"knative":"yes"}}}`), metav1.PatchOptions{})
		return err
	})
	return m
}

// forAll calls a function for all clusters.
func (m playedTeam) forAll(t *testing.T, call func(ctx context.Context, cluster string) error) {
	t.Helper()
	if err := played.ForEachCluster(t.Context(), m.clusters.Names(), call); err != nil {
		t.Fatal(err)
	}
}

// listClusters returns the clusters for functions that read only the hub: a played cluster has a name and nothing else.
func (m playedTeam) listClusters() []*lab.Cluster {
	var out []*lab.Cluster
	for _, name := range m.clusters.Names() {
		out = append(out, &lab.Cluster{Name: name})
	}
	return out
}

// awaitInstalled waits until the add-on of every cluster is Available, and OCM reports the spec with the hash as applied.
func (m playedTeam) awaitInstalled(t *testing.T, hash string) {
	t.Helper()
	available(t, m.Fleet, []api.Component{api.Serving}, m.listClusters()...)
	for _, c := range m.listClusters() {
		eventually(t, c.Name+" has completed the spec", 3*time.Minute, func(ctx context.Context) error {
			desired, completed, err := m.specHashesOf(ctx, c.Name)
			if err == nil && (desired != hash || completed != hash) {
				err = fmt.Errorf("OCM desires spec %.8s and reports spec %.8s, want %.8s", desired, completed, hash)
			}
			return err
		})
	}
	settled(t, m.Fleet, api.Serving, m.listClusters()...)
}

// cutOffAll makes all clusters unreachable, and returns when every removal is held.
func (m playedTeam) cutOffAll(t *testing.T) {
	t.Helper()
	m.forAll(t, func(ctx context.Context, cluster string) error {
		m.agents.SuspendAgent(cluster)
		return m.clusters.CutOffCluster(ctx, cluster)
	})
	for _, c := range m.listClusters() {
		m.awaitRemovalHeld(t, c, api.ReasonClusterUnavailable)
	}
}

// returnAtOnce lets all clusters return, and returns when every cluster has the installation of a new add-on, with the spec of the hash.
func (m playedTeam) returnAtOnce(t *testing.T, hash string) {
	t.Helper()
	former := map[string]types.UID{}
	for _, c := range m.listClusters() {
		former[c.Name] = m.addOn(t.Context(), t, api.Serving, c.Name).UID
	}
	m.forAll(t, func(ctx context.Context, cluster string) error {
		if err := m.agents.ResumeAgent(cluster); err != nil {
			return err
		}
		return m.clusters.RestoreCluster(ctx, cluster)
	})
	for _, c := range m.listClusters() {
		eventually(t, "the add-on of "+c.Name+" has changed", 4*time.Minute, m.checkHandover(c, former[c.Name]))
	}
	m.awaitInstalled(t, hash)
}

func (m playedTeam) readSpecs(t *testing.T) harness.WorkSpecs {
	t.Helper()
	specs, err := m.ListWorkSpecs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return specs
}

func returnUnedited(t *testing.T, m playedTeam) {
	before := m.readSpecs(t)
	m.cutOffAll(t)
	m.returnAtOnce(t, m.specHash(t))
	if changed := before.ListChanged(m.readSpecs(t)); len(changed) > 0 {
		t.Errorf("the return of the clusters has changed %d of %d works: %q", len(changed), len(before), changed)
	}
}

func returnEdited(t *testing.T, m playedTeam) {
	before := m.readSpecs(t)
	m.cutOffAll(t)
	m.patchDefault(t, fmt.Sprintf(`{"spec":{"config":{"deployment":{"progress-deadline":%q}}}}`, marker))
	m.returnAtOnce(t, m.specHash(t))
	after := m.readSpecs(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))); diff != "" {
		t.Errorf("the works on the hub are other works (-before +after):\n%s", diff)
	}
	for _, c := range m.listClusters() {
		works, err := m.ComponentWorks(t.Context(), api.Serving, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(works, func(w workv1.ManifestWork) bool { return hasMarker(&w) }) {
			t.Errorf("no work of %s delivers the changed configuration", c.Name)
		}
	}
}

// checkRequests holds that the manager has deleted no work since the installation, and that no client of the manager has sent more
// requests than the limit permits, although the limit has delayed requests.
func (m playedTeam) checkRequests(t *testing.T, installed time.Time) {
	t.Helper()
	requests, err := m.ListRequestsOf(harness.Namespace + ":" + harness.ManagerAccount)
	if err != nil {
		t.Fatal(err)
	}
	received := map[string][]time.Time{}
	for i := range requests {
		r := &requests[i]
		if r.Resource == "manifestworks" && strings.HasPrefix(r.Verb, "delete") && r.Received.After(installed) {
			t.Errorf("the manager has deleted ManifestWork %s/%s", r.Namespace, r.Name)
		}
		if r.Verb != "watch" { // clients do not count the begin of a watch
			received[clientOf(r)] = append(received[clientOf(r)], r.Received)
		}
	}
	for client, times := range received {
		t.Logf("the client for API group %q has sent %d requests", client, len(times))
		if excess := returnLimit.FindExcess(times); excess != "" {
			t.Errorf("the client for API group %q has sent %s", client, excess)
		}
	}
	if !strings.Contains(managerLog(t, m.Fleet), "client-side throttling") {
		t.Error("no request of the manager has waited for the limit: the story proves nothing")
	}
}

// clientOf returns the API group that a client of the manager serves. All clients have the same User-Agent.
func clientOf(r *lab.TimedRequest) string {
	if r.Resource == "addondeploymentconfigs" {
		return api.Group // the client for resources of Knative
	}
	return r.Group
}
