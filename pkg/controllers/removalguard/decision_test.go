// Copyright Contributors to the Open Cluster Management project

package removalguard

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
		reason string
		in     input
		want   action
		told   string
	}{
		"force": {
			reason: "What is left behind needs neither cluster nor budget.",
			in:     input{forced: true, availability: clusterUnavailable, strategy: strategyPlacements, desired: true, settled: true}, want: actionNone,
		},
		"cluster gone": {
			reason: "Nobody can remove anything.",
			in:     input{availability: clusterGone, strategy: strategyPlacements, desired: true, settled: true}, want: actionNone,
		},
		"cluster leaves": {
			reason: "A detached cluster is cleaned up at once, many of them too.",
			in:     input{availability: clusterDetaching, strategy: strategyPlacements, overBudget: true, settled: true}, want: actionAllow, told: api.ReasonRemovalAllowed,
		},
		"selected again": {
			reason: "The works go to the next add-on.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, desired: true, settled: true}, want: actionHandOver, told: api.ReasonHandedOver,
		},
		"selected a moment ago": {
			reason: "The decision may be older than the deletion.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, desired: true}, want: actionHold, told: api.ReasonPlacementSettling,
		},
		"selected while unavailable": {
			reason: "A Placement with tolerations may select it; handing over needs no cluster.",
			in:     input{availability: clusterUnavailable, strategy: strategyPlacements, desired: true, settled: true}, want: actionHandOver, told: api.ReasonHandedOver,
		},
		"selected after it was held": {
			reason: "A corrected Placement undoes a mass removal.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, desired: true, settled: true, overBudget: true}, want: actionHandOver, told: api.ReasonHandedOver,
		},
		"unavailable": {
			reason: "It may only be unreachable.",
			in:     input{availability: clusterUnavailable, strategy: strategyPlacements, settled: true}, want: actionHold, told: api.ReasonClusterUnavailable,
		},
		"unavailable and confirmed": {
			reason: "Nothing can be removed from it.",
			in:     input{availability: clusterUnavailable, strategy: strategyPlacements, settled: true, overBudget: true, confirmation: api.RemovalConfirm}, want: actionHold, told: api.ReasonClusterUnavailable,
		},
		"unavailable and held before": {
			reason: "When it is back it is still part of the mass removal.",
			in:     input{availability: clusterUnavailable, strategy: strategyPlacements, settled: true, overBudget: true}, want: actionCount,
		},
		"unavailable and disabled by hand": {
			reason: "It waits for the cluster.",
			in:     input{availability: clusterUnavailable, strategy: strategyManual, settled: true, revocable: true}, want: actionHold, told: api.ReasonClusterUnavailable,
		},
		"back, and a Placement may select it": {
			reason: "No time proves that the Placement has decided.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, undecided: "pool/pool", settled: true}, want: actionHold, told: api.ReasonPlacementUndecided,
		},
		"back, and confirmed": {
			reason: "Somebody wants it.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, undecided: "pool/pool", settled: true, confirmation: api.RemovalConfirm}, want: actionAllow, told: api.ReasonRemovalAllowed,
		},
		"back and held before": {
			reason: "The more important reason stays.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, undecided: "pool/pool", settled: true, overBudget: true}, want: actionCount,
		},
		"not selected": {
			reason: "It may be one of many.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, settled: true}, want: actionCount,
		},
		"no ClusterManagementAddOn": {
			reason: "Its deletion takes every add-on with it.",
			in:     input{availability: clusterAvailable, strategy: strategyUndefined, settled: true}, want: actionCount,
		},
		"disabled by hand": {
			reason: "Each was asked for by name.",
			in:     input{availability: clusterAvailable, strategy: strategyManual, settled: true, revocable: true}, want: actionAllow, told: api.ReasonRemovalAllowed,
		},
		"disabled by hand a moment ago": {
			reason: "The ClusterManagementAddOn may be deleted, and the cache behind.",
			in:     input{availability: clusterAvailable, strategy: strategyManual, revocable: true}, want: actionWait,
		},
		"held, then switched to Manual": {
			reason: "Who switches in panic wants it to stop.",
			in:     input{availability: clusterAvailable, strategy: strategyManual, settled: true, revocable: true, overBudget: true, originUncertain: true}, want: actionCount,
		},
		"unavailable while Placements decided, back after a switch to Manual": {
			reason: "Nobody knows that it was deleted by name.",
			in:     input{availability: clusterAvailable, strategy: strategyManual, settled: true, revocable: true, originUncertain: true}, want: actionCount,
		},
		"uncertain and confirmed": {
			reason: "Somebody wants it.",
			in:     input{availability: clusterAvailable, strategy: strategyManual, settled: true, originUncertain: true, confirmation: api.RemovalConfirm}, want: actionAllow, told: api.ReasonRemovalAllowed,
		},
		"confirmed": {
			reason: "Somebody wants it.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, settled: true, overBudget: true, confirmation: api.RemovalConfirm}, want: actionAllow, told: api.ReasonRemovalAllowed,
		},
		"cancelled": {
			reason: "Without a Placement to delete it again there can be a new add-on.",
			in:     input{availability: clusterAvailable, strategy: strategyManual, settled: true, revocable: true, confirmation: api.RemovalCancel}, want: actionHandOver, told: api.ReasonHandedOver,
		},
		"cancelled while Placements decide": {
			reason: "OCM would delete a new add-on at once.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, settled: true, revocable: true, confirmation: api.RemovalCancel}, want: actionHold, told: api.ReasonMassRemoval,
		},
		"cancelled without ClusterManagementAddOn": {
			reason: "A new add-on would have no configuration.",
			in:     input{availability: clusterAvailable, strategy: strategyUndefined, settled: true, revocable: true, confirmation: api.RemovalCancel}, want: actionHold, told: api.ReasonMassRemoval,
		},
		"cancelled while its resource is deleted": {
			reason: "The resource would only disable the next add-on too.",
			in:     input{availability: clusterAvailable, strategy: strategyManual, settled: true, confirmation: api.RemovalCancel}, want: actionAllow, told: api.ReasonRemovalAllowed,
		},
		"unknown confirmation": {
			reason: "It is none.",
			in:     input{availability: clusterAvailable, strategy: strategyPlacements, settled: true, overBudget: true, confirmation: "confirm"}, want: actionCount,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.cluster = "c1"
			got := determineDecision(&tc.in)
			if got.action != tc.want || got.reason != tc.told {
				t.Errorf("%s got %s/%s, want %s/%s", tc.reason, got.action, got.reason, tc.want, tc.told)
			}
			if got.action == actionHold && strings.TrimSpace(got.message) == "" {
				t.Error("a hold says nothing")
			}
		})
	}
}

func TestAvailability(t *testing.T) {
	cluster := func(status metav1.ConditionStatus, taints ...string) *clusterv1.ManagedCluster {
		c := &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
			{Type: clusterv1.ManagedClusterConditionAvailable, Status: status},
		}}}
		for _, key := range taints {
			c.Spec.Taints = append(c.Spec.Taints, clusterv1.Taint{Key: key})
		}
		return c
	}
	deleted := func(c *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
		c.DeletionTimestamp = &metav1.Time{Time: time.Unix(100000, 0)}
		return c
	}
	lostAfter := func(c *clusterv1.ManagedCluster) *clusterv1.ManagedCluster { // OCM no longer accepts the Lease of the agent
		c.Status.Conditions[0].LastTransitionTime = metav1.NewTime(c.DeletionTimestamp.Add(5 * time.Minute))
		return c
	}
	for name, tc := range map[string]struct {
		cluster *clusterv1.ManagedCluster
		want    availability
	}{
		"no cluster":                 {nil, clusterGone},
		"deleted and away":           {deleted(cluster(metav1.ConditionUnknown)), clusterGone},
		"deleted and then away":      {lostAfter(deleted(cluster(metav1.ConditionUnknown))), clusterDetaching},
		"deleted and there":          {deleted(cluster(metav1.ConditionTrue)), clusterDetaching},
		"never seen":                 {&clusterv1.ManagedCluster{}, clusterUnavailable},
		"away":                       {cluster(metav1.ConditionUnknown), clusterUnavailable},
		"not healthy":                {cluster(metav1.ConditionFalse), clusterUnavailable},
		"there with a taint of away": {cluster(metav1.ConditionTrue, clusterv1.ManagedClusterTaintUnreachable), clusterUnavailable},
		"there with another taint":   {cluster(metav1.ConditionTrue, "gpu"), clusterAvailable},
		"there":                      {cluster(metav1.ConditionTrue), clusterAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			if got := determineAvailability(tc.cluster); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
