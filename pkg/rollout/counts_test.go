// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

func TestCountClusters(t *testing.T) {
	since := time.Unix(1000, 0)
	serving := func(version string) map[string]string { return map[string]string{"knative-serving": version} }
	clusters := []ClusterState{
		{Name: "ready", Phase: Succeeded, Updated: true, Versions: serving("1.23.0"), Reason: "Ready"},
		{Name: "lost", Phase: Skipped, Unresolved: true, Reason: "ManagedClusterUnavailable", Versions: serving("1.22.0")},
		{Name: "foreign", Phase: Skipped, Unresolved: true, Reason: "NotOwned"},
		{Name: "lost too", Phase: Skipped, Unresolved: true, Reason: "ManagedClusterUnavailable", Versions: serving("1.22.0")},
		{Name: "bad", Phase: Failed, Updated: true, Reason: "InvalidSpec", Since: since},
		{Name: "slow", Phase: TimedOut, Updated: true, Reason: "TimedOut", Since: since.Add(time.Second)},
		{Name: "next", Phase: Waiting, Reason: "Waiting", Versions: serving("1.23.0")},
		{Name: "late", Phase: Progressing, Updated: true, Reason: "WorkloadsNotReady", Versions: map[string]string{"knative-eventing": "1.23.0"}},
	}
	at := func(t time.Time) *metav1.Time { return new(metav1.NewTime(t).Rfc3339Copy()) }
	want := fleetv1alpha1.RolloutStatus{
		Revision: "r1", Total: 8, Updated: 4, Ready: 1, Failed: 2, Unresolved: 3,
		UnresolvedReasons: []fleetv1alpha1.ReasonCount{{Reason: "ManagedClusterUnavailable", Clusters: 2}, {Reason: "NotOwned", Clusters: 1}},
		Versions: []fleetv1alpha1.VersionCount{
			{Component: "knative-serving", Version: "1.22.0", Clusters: 2},
			{Component: "knative-serving", Version: "1.23.0", Clusters: 2},
			{Component: "knative-eventing", Version: "1.23.0", Clusters: 1},
		},
		Clusters: []fleetv1alpha1.ClusterReport{
			{Name: "slow", Reason: "TimedOut", Since: at(since.Add(time.Second))},
			{Name: "bad", Reason: "InvalidSpec", Since: at(since)},
			{Name: "foreign", Reason: "NotOwned"},
			{Name: "lost", Reason: "ManagedClusterUnavailable"},
			{Name: "lost too", Reason: "ManagedClusterUnavailable"},
			{Name: "next", Reason: "Waiting"},
			{Name: "late", Reason: "WorkloadsNotReady"},
		},
	}
	if diff := cmp.Diff(want, CountClusters("r1", clusters)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	slices.Reverse(clusters)
	if diff := cmp.Diff(want, CountClusters("r1", clusters)); diff != "" {
		t.Errorf("another order of the clusters gives another result (-want +got):\n%s", diff)
	}
}

// TestCountsAreBounded holds that the result names at most ten clusters, reasons and versions, and that the entries of the others count.
func TestCountsAreBounded(t *testing.T) {
	var clusters []ClusterState
	for i := range 300 {
		clusters = append(clusters, ClusterState{
			Name: fmt.Sprint(i), Phase: Skipped, Unresolved: true, Reason: fmt.Sprintf("Reason%d", i%30),
			Versions: map[string]string{"knative-serving": fmt.Sprintf("1.%d.0%s", i%30, strings.Repeat("0", 1000))},
		})
	}
	out := CountClusters("r", clusters)
	if len(out.Clusters) != 10 || len(out.UnresolvedReasons) != 10 || len(out.Versions) != 10 {
		t.Fatalf("the result has %d clusters, %d reasons and %d versions, want 10", len(out.Clusters), len(out.UnresolvedReasons), len(out.Versions))
	}
	if got, want := out.UnresolvedReasons[9], (fleetv1alpha1.ReasonCount{Reason: fleetv1alpha1.Others, Clusters: 210}); got != want {
		t.Errorf("the last reason is %+v, want %+v", got, want)
	}
	if got, want := out.Versions[9], (fleetv1alpha1.VersionCount{Component: fleetv1alpha1.Others, Version: fleetv1alpha1.Others, Clusters: 210}); got != want {
		t.Errorf("the last version is %+v, want %+v", got, want)
	}
	if got := len(out.Versions[0].Version); got > maxVersion+3 {
		t.Errorf("a version has %d bytes", got)
	}
}
