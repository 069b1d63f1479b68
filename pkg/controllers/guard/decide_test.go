// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestDetermine(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		in      input
		verdict verdict
		told    string
	}{
		"force": {
			reason: "What is left behind needs neither cluster nor brake.",
			in:     input{forced: true, sight: unavailable, strategy: placements, wanted: true, settled: true}, verdict: pass,
		},
		"cluster gone": {
			reason: "Nobody can remove anything.",
			in:     input{sight: gone, strategy: placements, wanted: true, settled: true}, verdict: pass,
		},
		"cluster leaves": {
			reason: "A detached cluster is cleaned up at once, many of them too.",
			in:     input{sight: leaving, strategy: placements, braked: true, settled: true}, verdict: allow, told: api.ReasonRemovalAllowed,
		},
		"selected again": {
			reason: "The works go to the next add-on.",
			in:     input{sight: inSight, strategy: placements, wanted: true, settled: true}, verdict: handOver, told: api.ReasonHandedOver,
		},
		"selected a moment ago": {
			reason: "The decision may be older than the deletion.",
			in:     input{sight: inSight, strategy: placements, wanted: true}, verdict: hold, told: api.ReasonPlacementSettling,
		},
		"selected while out of sight": {
			reason: "A Placement with tolerations may select it; handing over needs no cluster.",
			in:     input{sight: unavailable, strategy: placements, wanted: true, settled: true}, verdict: handOver, told: api.ReasonHandedOver,
		},
		"selected after it was held": {
			reason: "A corrected Placement undoes a mass removal.",
			in:     input{sight: inSight, strategy: placements, wanted: true, settled: true, braked: true}, verdict: handOver, told: api.ReasonHandedOver,
		},
		"out of sight": {
			reason: "It may only be unreachable.",
			in:     input{sight: unavailable, strategy: placements, settled: true}, verdict: hold, told: api.ReasonClusterUnavailable,
		},
		"out of sight and confirmed": {
			reason: "Nothing can be removed from it.",
			in:     input{sight: unavailable, strategy: placements, settled: true, braked: true, answer: api.RemovalConfirm}, verdict: hold, told: api.ReasonClusterUnavailable,
		},
		"out of sight and held before": {
			reason: "When it is back it is still part of the mass removal.",
			in:     input{sight: unavailable, strategy: placements, settled: true, braked: true}, verdict: count,
		},
		"out of sight and disabled by hand": {
			reason: "It waits for the cluster.",
			in:     input{sight: unavailable, strategy: manual, settled: true, revocable: true}, verdict: hold, told: api.ReasonClusterUnavailable,
		},
		"back a moment ago": {
			reason: "The Placement gets time to select it.",
			in:     input{sight: returned, strategy: placements, settled: true}, verdict: hold, told: api.ReasonPlacementSettling,
		},
		"back a moment ago and held before": {
			reason: "The more important reason stays.",
			in:     input{sight: returned, strategy: placements, settled: true, braked: true}, verdict: count,
		},
		"back a moment ago and disabled by hand": {
			reason: "No Placement will select it.",
			in:     input{sight: returned, strategy: manual, settled: true, revocable: true}, verdict: allow, told: api.ReasonRemovalAllowed,
		},
		"not selected": {
			reason: "It may be one of many.",
			in:     input{sight: inSight, strategy: placements, settled: true}, verdict: count,
		},
		"no ClusterManagementAddOn": {
			reason: "Its deletion takes every add-on with it.",
			in:     input{sight: inSight, strategy: undefined, settled: true}, verdict: count,
		},
		"disabled by hand": {
			reason: "Each was asked for by name.",
			in:     input{sight: inSight, strategy: manual, settled: true, revocable: true}, verdict: allow, told: api.ReasonRemovalAllowed,
		},
		"held, then switched to Manual": {
			reason: "Who switches in panic wants it to stop.",
			in:     input{sight: inSight, strategy: manual, settled: true, revocable: true, braked: true, doubted: true}, verdict: count,
		},
		"out of sight while Placements decided, back after a switch to Manual": {
			reason: "Nobody knows that it was deleted by name.",
			in:     input{sight: returned, strategy: manual, settled: true, revocable: true, doubted: true}, verdict: count,
		},
		"in doubt and confirmed": {
			reason: "Somebody wants it.",
			in:     input{sight: inSight, strategy: manual, settled: true, doubted: true, answer: api.RemovalConfirm}, verdict: allow, told: api.ReasonRemovalAllowed,
		},
		"confirmed": {
			reason: "Somebody wants it.",
			in:     input{sight: inSight, strategy: placements, settled: true, braked: true, answer: api.RemovalConfirm}, verdict: allow, told: api.ReasonRemovalAllowed,
		},
		"cancelled": {
			reason: "Without a Placement to delete it again there can be a new add-on.",
			in:     input{sight: inSight, strategy: manual, settled: true, revocable: true, answer: api.RemovalCancel}, verdict: handOver, told: api.ReasonHandedOver,
		},
		"cancelled while Placements decide": {
			reason: "OCM would delete a new add-on at once.",
			in:     input{sight: inSight, strategy: placements, settled: true, revocable: true, answer: api.RemovalCancel}, verdict: hold, told: api.ReasonMassRemoval,
		},
		"cancelled without ClusterManagementAddOn": {
			reason: "A new add-on would have no configuration.",
			in:     input{sight: inSight, strategy: undefined, settled: true, revocable: true, answer: api.RemovalCancel}, verdict: hold, told: api.ReasonMassRemoval,
		},
		"cancelled while its resource is deleted": {
			reason: "The resource would only disable the next add-on too.",
			in:     input{sight: inSight, strategy: manual, settled: true, answer: api.RemovalCancel}, verdict: allow, told: api.ReasonRemovalAllowed,
		},
		"unknown answer": {
			reason: "It is none.",
			in:     input{sight: inSight, strategy: placements, settled: true, braked: true, answer: "confirm"}, verdict: count,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.cluster = "c1"
			got := determine(&tc.in)
			if got.verdict != tc.verdict || got.reason != tc.told {
				t.Errorf("%s got %s/%s, want %s/%s", tc.reason, got.verdict, got.reason, tc.verdict, tc.told)
			}
			if got.verdict == hold && strings.TrimSpace(got.message) == "" {
				t.Error("a hold says nothing")
			}
		})
	}
}

func TestSight(t *testing.T) {
	now := time.Unix(100000, 0)
	cluster := func(status metav1.ConditionStatus, since time.Duration, taints ...string) *clusterv1.ManagedCluster {
		c := &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
			{Type: clusterv1.ManagedClusterConditionAvailable, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-since))},
		}}}
		for _, key := range taints {
			c.Spec.Taints = append(c.Spec.Taints, clusterv1.Taint{Key: key})
		}
		return c
	}
	deleted := func(c *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
		c.DeletionTimestamp = &metav1.Time{Time: now}
		return c
	}
	for name, tc := range map[string]struct {
		cluster *clusterv1.ManagedCluster
		want    sight
		wait    time.Duration
	}{
		"no cluster":                 {nil, gone, 0},
		"deleted and away":           {deleted(cluster(metav1.ConditionUnknown, time.Hour)), gone, 0},
		"deleted and there":          {deleted(cluster(metav1.ConditionTrue, time.Hour)), leaving, 0},
		"never seen":                 {&clusterv1.ManagedCluster{}, unavailable, 0},
		"away":                       {cluster(metav1.ConditionUnknown, time.Hour), unavailable, 0},
		"not healthy":                {cluster(metav1.ConditionFalse, time.Hour), unavailable, 0},
		"there with a taint of away": {cluster(metav1.ConditionTrue, time.Hour, clusterv1.ManagedClusterTaintUnreachable), unavailable, 0},
		"there with another taint":   {cluster(metav1.ConditionTrue, time.Hour, "gpu"), inSight, 0},
		"back for 20 s":              {cluster(metav1.ConditionTrue, 20*time.Second), returned, 40 * time.Second},
		"back, by a clock ahead":     {cluster(metav1.ConditionTrue, -time.Hour), returned, time.Minute},
		"there for long":             {cluster(metav1.ConditionTrue, time.Hour), inSight, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got, wait := sightOf(tc.cluster, now); got != tc.want || wait != tc.wait {
				t.Errorf("got %s after %s, want %s after %s", got, wait, tc.want, tc.wait)
			}
		})
	}
}
