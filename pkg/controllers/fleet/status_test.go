// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// manyClusters returns clusters with the longest names, in all phases.
func manyClusters(n int) []clusterState {
	var out []clusterState
	for i := range n {
		c := inPhase(fmt.Sprintf("%04d%s", i, strings.Repeat("n", 249)), phase(i%6), time.Hour)
		c.unresolvedTarget, c.reason = i%2 == 0, fmt.Sprintf("%d%s", i%100, strings.Repeat("r", 2000))
		c.ineligible, c.lacksKinds = true, true
		c.versions = map[string]string{"knative-serving": fmt.Sprintf("%d%s", i%100, strings.Repeat("v", 2000)), "knative-eventing": fmt.Sprint(i)}
		out = append(out, c)
	}
	return out
}

// TestStatusIsBounded holds that the status of 5,000 clusters in the worst state is below 20 kB.
func TestStatusIsBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	long := strings.Repeat("x", 100_000)
	in := &report{generation: 1 << 60, revision: "0123456789abcdef", clusters: manyClusters(5000), refused: long, heldClusters: 5000, held: &problem{fleetv1alpha1.ReasonMassRemoval, strings.Repeat("h", 4000)}}
	for minute := range 60 {
		in.removals = recordRemovals(in.removals, 5000, now.Add(time.Duration(minute)*time.Minute))
	}
	for name, change := range map[string]func(){
		"failures": func() { in.plan.stopped = true }, "a refused child": func() { in.plan.stopped = false },
		"a problem": func() { in.problem = &problem{fleetv1alpha1.ReasonInvalidSpec, long} },
	} {
		change()
		status := computeStatus(in, &fleetv1alpha1.KnativeFleetStatus{}, now)
		data, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, len(data))
		if len(data) > 20_000 {
			t.Errorf("%s: the status has %d bytes", name, len(data))
		}
		if len(status.Rollout.Clusters) > 10 {
			t.Errorf("%s: the status names %d clusters", name, len(status.Rollout.Clusters))
		}
		in.problem = nil
	}
}

func TestComputeStatus(t *testing.T) {
	const waiting, progressing, succeeded, failed, skipped = phaseWaiting, phaseProgressing, phaseSucceeded, phaseFailed, phaseSkipped
	unresolved := func(c clusterState) clusterState {
		c.unresolvedTarget, c.updated = true, false
		return c
	}
	for name, tc := range map[string]struct {
		in report
		// want lists "Type=Status/Reason" of all conditions.
		want string
	}{
		"every cluster is Ready": {
			in:   report{clusters: []clusterState{inPhase("a", succeeded, 0)}},
			want: "Ready=True/Ready RolledOut=True/RolledOut TargetClusterResolved=True/TargetsResolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing",
		},
		"no cluster is selected": {
			want: "Ready=False/NothingSelected RolledOut=False/NothingSelected TargetClusterResolved=False/NothingSelected",
		},
		"a cluster waits": {
			in:   report{clusters: []clusterState{inPhase("a", progressing, 0), inPhase("b", waiting, 0)}},
			want: "Ready=False/Progressing RolledOut=False/Progressing TargetClusterResolved=True/TargetsResolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing",
		},
		"every cluster has the revision and one is not Ready": {
			in:   report{clusters: []clusterState{inPhase("a", progressing, 0), inPhase("b", succeeded, 0)}},
			want: "Ready=False/ClustersNotReady RolledOut=True/RolledOut TargetClusterResolved=True/TargetsResolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing",
		},
		"a rollout is stopped": {
			in:   report{clusters: []clusterState{inPhase("a", failed, 0), inPhase("b", waiting, 0)}, plan: rolloutPlan{stopped: true}},
			want: "Ready=False/MaxFailuresExceeded RolledOut=False/MaxFailuresExceeded TargetClusterResolved=True/TargetsResolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing",
		},
		"a permitted failure": {
			in:   report{clusters: []clusterState{inPhase("a", failed, 0), inPhase("b", succeeded, 0)}},
			want: "Ready=False/ClustersFailed RolledOut=False/ClustersFailed TargetClusterResolved=True/TargetsResolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing",
		},
		"an unresolved cluster": {
			in:   report{clusters: []clusterState{unresolved(inPhase("a", skipped, 0)), inPhase("b", succeeded, 0)}},
			want: "Ready=False/ClustersUnresolved RolledOut=False/ClustersUnresolved TargetClusterResolved=False/ClustersUnresolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing",
		},
		"a refused child": {
			in:   report{clusters: []clusterState{inPhase("a", waiting, 0)}, refused: "no"},
			want: "Ready=False/ChildRefused RolledOut=False/ChildRefused TargetClusterResolved=True/TargetsResolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing",
		},
		"children that lack kinds and cannot go to the version": {
			in: report{clusters: []clusterState{
				{cluster: cluster{name: "a"}, phase: progressing, updated: true, ineligible: true}, {cluster: cluster{name: "b"}, phase: progressing, updated: true, lacksKinds: true},
			}},
			want: "Ready=False/ClustersNotReady RolledOut=True/RolledOut TargetClusterResolved=True/TargetsResolved " +
				"VersionMigrationEligible=False/VersionMigrationNotEligible DependenciesInstalled=False/KindMissing",
		},
		"held removals": {
			in:   report{clusters: []clusterState{inPhase("a", succeeded, 0)}, held: &problem{fleetv1alpha1.ReasonMassRemoval, "m"}},
			want: "Ready=True/Ready RolledOut=True/RolledOut TargetClusterResolved=True/TargetsResolved VersionMigrationEligible=True/Eligible DependenciesInstalled=True/NothingMissing RemovalHeld=True/MassRemoval",
		},
		"a problem": {
			in:   report{problem: &problem{fleetv1alpha1.ReasonPlacementNotFound, "m"}},
			want: "Ready=False/PlacementNotFound RolledOut=False/PlacementNotFound TargetClusterResolved=False/PlacementNotFound",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := computeStatus(&tc.in, &fleetv1alpha1.KnativeFleetStatus{}, time.Unix(1000, 0))
			var got []string
			for _, c := range status.Conditions {
				got = append(got, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
				if c.Message == "" {
					t.Errorf("%s has no message", c.Type)
				}
				if reasons := fleetv1alpha1.Reasons()[c.Type]; !slices.Contains(reasons, c.Reason) {
					t.Errorf("reason %s is none of %s: %q", c.Reason, c.Type, reasons)
				}
			}
			if joined := strings.Join(got, " "); joined != tc.want {
				t.Errorf("the conditions are\n%s, want\n%s", joined, tc.want)
			}
			again := computeStatus(&tc.in, &status, time.Unix(2000, 0))
			if !equalStatus(&status, &again) {
				t.Errorf("equal facts give another status:\n%+v\n%+v", status, again)
			}
		})
	}
}

// TestTransitionTimes holds that a condition keeps its time until its status changes.
func TestTransitionTimes(t *testing.T) {
	in := &report{clusters: []clusterState{inPhase("a", phaseWaiting, 0)}}
	first := computeStatus(in, &fleetv1alpha1.KnativeFleetStatus{}, time.Unix(1000, 0))
	in.clusters[0].phase = phaseSucceeded
	in.clusters[0].updated = true
	second := computeStatus(in, &first, time.Unix(2000, 0))
	for condition, want := range map[string]int64{fleetv1alpha1.Ready: 2000, fleetv1alpha1.TargetClusterResolved: 1000} {
		if got := apimeta.FindStatusCondition(second.Conditions, condition).LastTransitionTime; !got.Equal(new(metav1.Unix(want, 0))) {
			t.Errorf("%s has time %v, want %d", condition, got, want)
		}
	}
}

// TestReportsOfChildren holds that the status counts the versions and the reasons that children report, the clusters whose removal is
// held, and aggregates two conditions of the children.
func TestReportsOfChildren(t *testing.T) {
	h := newHub(t, allClusters, newProfile("a"), newProfile("b"), newProfile("c"))
	h.settle()
	h.becomeReady()
	h.report("b", "Ready=False/TargetConflict", "TargetClusterResolved=False/TargetConflict", "VersionMigrationEligible=False/VersionMigrationNotEligible")
	h.report("c", "Ready=False/KindMissing", "DependenciesInstalled=False/KindMissing")
	for _, name := range []string{"a", "b"} {
		h.change(name, func(c *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(c.Object, "1.23.0", "status", "version")
		})
	}
	h.passAfter(time.Minute)
	h.shows("VersionMigrationEligible=False/VersionMigrationNotEligible", "DependenciesInstalled=False/KindMissing")
	got := h.status().Rollout
	if want := []fleetv1alpha1.ReasonCount{{Reason: "TargetConflict", Clusters: 1}}; !slices.Equal(got.UnresolvedReasons, want) {
		t.Errorf("the reasons are %v, want %v", got.UnresolvedReasons, want)
	}
	if want := []fleetv1alpha1.VersionCount{{Component: "knative-serving", Version: "1.23.0", Clusters: 2}}; !slices.Equal(got.Versions, want) {
		t.Errorf("the versions are %v, want %v", got.Versions, want)
	}
	if got.Held != 0 {
		t.Errorf("the removal of %d clusters is held", got.Held)
	}
	h.setSpec(`{"selector": {"matchLabels": {"env": "none"}}}`)
	h.passAfter(time.Minute)
	if held := h.status().Rollout.Held; held != 3 {
		t.Errorf("the removal of %d clusters is held, want 3", held)
	}
}
