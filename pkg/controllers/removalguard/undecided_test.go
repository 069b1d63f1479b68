// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestMaySelect(t *testing.T) {
	selecting := func(selector clusterv1beta1.ClusterSelector) clusterv1beta1.PlacementSpec {
		return clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: selector}}}
	}
	byLabel := func(value string) clusterv1beta1.ClusterSelector {
		return clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"knative": value}}}
	}
	byClaim := clusterv1beta1.ClusterSelector{ClaimSelector: clusterv1beta1.ClusterClaimSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: []string{"eu"}},
	}}}
	taint := clusterv1.Taint{Key: "maintenance", Value: "now", Effect: clusterv1.TaintEffectNoSelect}
	for name, tc := range map[string]struct {
		spec     clusterv1beta1.PlacementSpec
		selected int
		change   func(c *clusterv1.ManagedCluster)
		want     bool
	}{
		"every cluster":            {want: true},
		"a label":                  {spec: selecting(byLabel("yes")), want: true},
		"another label":            {spec: selecting(byLabel("no"))},
		"a claim":                  {spec: selecting(byClaim), want: true},
		"another claim":            {spec: selecting(byClaim), change: func(c *clusterv1.ManagedCluster) { c.Status.ClusterClaims = nil }},
		"one of two predicates":    {spec: clusterv1beta1.PlacementSpec{Predicates: append(selecting(byLabel("no")).Predicates, selecting(byClaim).Predicates...)}, want: true},
		"as many as wanted":        {spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(2))}, selected: 2},
		"fewer than wanted":        {spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(2))}, selected: 1, want: true},
		"the cluster's set":        {spec: clusterv1beta1.PlacementSpec{ClusterSets: []string{"blue"}}, want: true},
		"the set of every cluster": {spec: clusterv1beta1.PlacementSpec{ClusterSets: []string{"global"}}, want: true},
		"another set":              {spec: clusterv1beta1.PlacementSpec{ClusterSets: []string{"green"}}},
		"a taint":                  {change: func(c *clusterv1.ManagedCluster) { c.Spec.Taints = []clusterv1.Taint{taint} }},
		"a tolerated taint":        {spec: clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Key: "maintenance", Value: "now"}}}, change: func(c *clusterv1.ManagedCluster) { c.Spec.Taints = []clusterv1.Taint{taint} }, want: true},
		"a taint of another value": {spec: clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Key: "maintenance"}}}, change: func(c *clusterv1.ManagedCluster) { c.Spec.Taints = []clusterv1.Taint{taint} }},
		"a taint that only prefers": {change: func(c *clusterv1.ManagedCluster) {
			c.Spec.Taints = []clusterv1.Taint{{Key: "slow", Effect: clusterv1.TaintEffectPreferNoSelect}}
		}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"knative": "yes", clusterv1beta2.ClusterSetLabel: "blue"}}}
			c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "region", Value: "eu"}}
			if tc.change != nil {
				tc.change(c)
			}
			p := &decidedPlacement{Placement: &clusterv1beta1.Placement{Spec: tc.spec}, clusters: tc.selected}
			if got := p.maySelect(c); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// TestReturnedCluster holds that no time allows the removal from a cluster that was unavailable, and that an Event tells of the
// removal which the Placement's decision allows.
func TestReturnedCluster(t *testing.T) {
	returned := func() *fakeHub {
		return newHub(3).deleted(1).unselected().held(1, decision{reason: api.ReasonClusterUnavailable, message: "away"})
	}
	undecided := returned()
	for range 2 { // at once, and in the next pass, which finds the condition
		undecided.actions, undecided.events = nil, nil
		undecided.reconcile(t)
		if len(undecided.actions) != 1 || undecided.actions[0] != "patch managedclusteraddons/status c0/knative-serving conditions" || undecided.wait != 0 {
			t.Errorf("a Placement may select the cluster: %q, and a pass after %s", undecided.actions, undecided.wait)
		}
		undecided.held(1, decision{reason: api.ReasonPlacementUndecided, message: "to be replaced"})
	}

	unseen := newHub(3).deleted(1).unselected()
	unseen.clusters[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Second))
	unseen.reconcile(t)
	if len(unseen.actions) != 1 || unseen.wait != 0 {
		t.Errorf("no manager saw the cluster away: %q, and a pass after %s", unseen.actions, unseen.wait)
	}

	// A clock 10 minutes behind stamps a return of this second before the deletion, and the clock of a cluster that was not away may be
	// 10 minutes ahead.
	for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		for _, synced := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
			skewed := newHub(3).deleted(1).unselected()
			c := skewed.clusters[0]
			c.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(ahead))
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionClockSynced, Status: synced})
			skewed.reconcile(t)
			if held := len(skewed.actions) == 1; held != (ahead > 0 || synced == metav1.ConditionFalse) {
				t.Errorf("a clock %s ahead, synced %s: %q", ahead, synced, skewed.actions)
			}
		}
	}

	decided := returned()
	decided.placement.Spec.NumberOfClusters = new(int32(0))
	decided.reconcile(t)
	want := `Normal RemovalAllowed knative-serving may be removed from cluster "c0": maxRemoval permits the removal`
	if len(decided.actions) != 2 || len(decided.events) != 1 || decided.events[0] != want {
		t.Errorf("the Placement cannot select the cluster: %q, Events %q", decided.actions, decided.events)
	}
}

// TestUndecidedUsesNoBudget holds that an add-on that stays until a user decides does not hold other removals, unless the add-on was deleted in the
// same batch.
func TestUndecidedUsesNoBudget(t *testing.T) {
	for age, want := range map[time.Duration]string{time.Hour: "removal-allowed", 30 * time.Second: "conditions"} {
		h := newHub(8).unselected().deletedAgo(age, 30*time.Second)
		h.held(1, decision{reason: api.ReasonPlacementUndecided, message: "stays"})
		h.reconcile(t)
		if len(h.actions) == 0 || !strings.Contains(h.actions[len(h.actions)-1], "c1/") || !strings.Contains(h.actions[len(h.actions)-1], want) {
			t.Errorf("beside an undecided add-on deleted %s ago the guard does %q, want %s", age, h.actions, want)
		}
	}
}
