// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// ocmDecision returns a PlacementDecision of OCM.
func ocmDecision(group, index string, clusters ...string) *clusterv1beta1.PlacementDecision {
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		clusterv1beta1.DecisionGroupNameLabel: group, clusterv1beta1.DecisionGroupIndexLabel: index,
	}}}
	for _, c := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
	}
	return d
}

// keyDecision returns a PlacementDecision of SIG Multicluster. A cluster is named as "name" or "namespace/name".
func keyDecision(name, index string, refs ...clusterinventoryv1alpha1.ClusterProfileReference) *clusterinventoryv1alpha1.PlacementDecision {
	d := &clusterinventoryv1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Labels: map[string]string{}}}
	if index != "" {
		d.Labels[clusterinventoryv1alpha1.DecisionIndexLabel] = index
	}
	for _, ref := range refs {
		d.Decisions = append(d.Decisions, clusterinventoryv1alpha1.ClusterDecision{ClusterProfileRef: ref})
	}
	return d
}

func refTo(name string, namespace ...string) clusterinventoryv1alpha1.ClusterProfileReference {
	out := clusterinventoryv1alpha1.ClusterProfileReference{Name: name}
	if len(namespace) > 0 {
		out.Namespace = namespace[0]
	}
	return out
}

func TestSelectClusters(t *testing.T) {
	byHand := newProfile("by-hand", "env=b")
	byHand.Spec.ClusterManager.Name = "by-hand"
	leaving := newProfile("leaving")
	leaving.DeletionTimestamp = new(metav1.Unix(1, 0))
	profiles := []*clusterinventoryv1alpha1.ClusterProfile{byHand, newProfile("c2", "env=b"), newProfile("c1", "env=a"), leaving}
	placement := fleetv1alpha1.KnativeFleetSpec{PlacementRef: &fleetv1alpha1.PlacementReference{Name: "edge"}}
	key := fleetv1alpha1.KnativeFleetSpec{DecisionKey: "edge"}
	selector := func(s metav1.LabelSelector) fleetv1alpha1.KnativeFleetSpec {
		return fleetv1alpha1.KnativeFleetSpec{Selector: &s}
	}
	grouped := selector(metav1.LabelSelector{})
	grouped.GroupByLabel = "env"

	for name, tc := range map[string]struct {
		in   selectionInput
		spec fleetv1alpha1.KnativeFleetSpec
		// want lists "name group index unresolved".
		want    []string
		problem string
	}{
		"an empty selector selects every profile that is not being deleted": {
			spec: selector(metav1.LabelSelector{}), want: []string{"by-hand  0 ", "c1  0 ", "c2  0 "},
		},
		"a selector selects by labels": {
			spec: selector(metav1.LabelSelector{MatchLabels: map[string]string{"env": "b"}}), want: []string{"by-hand  0 ", "c2  0 "},
		},
		"a selector that no profile matches selects nothing": {spec: selector(metav1.LabelSelector{MatchLabels: map[string]string{"env": "c"}})},
		"a selector with an unknown operator is a problem": {
			spec:    selector(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Is"}}}),
			problem: fleetv1alpha1.ReasonInvalidSpec,
		},
		"the values of a label are groups in their order": {spec: grouped, want: []string{"by-hand b 1 ", "c1 a 0 ", "c2 b 1 "}},
		"a Placement that does not exist is a problem":    {spec: placement, problem: fleetv1alpha1.ReasonPlacementNotFound},
		"a Placement selects by the names of clusters, in its groups": {
			spec: placement, in: selectionInput{placement: &clusterv1beta1.Placement{}, placementDecisions: []*clusterv1beta1.PlacementDecision{
				ocmDecision("first", "0", "c2"), ocmDecision("", "1", "c1"),
			}}, want: []string{"c1  1 ", "c2 first 0 "},
		},
		"a Placement never selects a profile of another cluster manager, nor a profile that is missing": {
			spec: placement, in: selectionInput{placement: &clusterv1beta1.Placement{}, placementDecisions: []*clusterv1beta1.PlacementDecision{
				ocmDecision("", "0", "by-hand", "leaving", "c9"),
			}}, want: []string{"by-hand  0 ClusterProfileNotFound", "c9  0 ClusterProfileNotFound", "leaving  0 ClusterProfileNotFound"},
		},
		"decisions with a key are joined in the order of their indexes": {
			spec: key, in: selectionInput{keyDecisions: []*clusterinventoryv1alpha1.PlacementDecision{
				keyDecision("a", "", refTo("c9")), keyDecision("b", "10", refTo("c2")), keyDecision("c", "2", refTo("c1"), refTo("by-hand", team)),
			}}, want: []string{"by-hand  0 ", "c1  0 ", "c2  1 ", "c9  2 ClusterProfileNotFound"},
		},
		"a cluster in two decisions counts once, in the first": {
			spec: key, in: selectionInput{keyDecisions: []*clusterinventoryv1alpha1.PlacementDecision{
				keyDecision("a", "1", refTo("c1")), keyDecision("b", "0", refTo("c1")),
			}}, want: []string{"c1  0 "},
		},
		"a decision on a profile of another namespace is not followed": {
			spec: key, in: selectionInput{keyDecisions: []*clusterinventoryv1alpha1.PlacementDecision{keyDecision("a", "0", refTo("c1", "red"))}},
			want: []string{"c1  0 OtherNamespace"},
		},
		"a decision on another namespace does not hide the profile of the same name": {
			spec: key, in: selectionInput{keyDecisions: []*clusterinventoryv1alpha1.PlacementDecision{
				keyDecision("a", "0", refTo("c1", "red")), keyDecision("b", "1", refTo("c1")),
			}}, want: []string{"c1  1 "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.spec, tc.in.profiles = &tc.spec, profiles
			clusters, no := selectClusters(&tc.in)
			var got []string
			for _, c := range clusters {
				got = append(got, fmt.Sprintf("%s %s %d %s", c.name, c.group.GroupName, c.group.GroupIndex, c.unresolved))
				if (c.profile == nil) != (c.unresolved != "") {
					t.Errorf("%s has profile %v", c.name, c.profile)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("selected clusters (-want +got):\n%s", diff)
			}
			reason := ""
			if no != nil {
				reason = no.reason
			}
			if reason != tc.problem {
				t.Errorf("the problem is %q, want %q", reason, tc.problem)
			}
		})
	}
}

// TestConcurrencyOfPlacement holds that clustersPerDecisionGroup of the Placement is the default of maxConcurrency, as OCM promises, in the plan of the
// templates and in the selection that other rollouts read.
func TestConcurrencyOfPlacement(t *testing.T) {
	for name, tc := range map[string]struct {
		strategy string
		perGroup intstr.IntOrString
		children string
	}{
		"a number of clusters":       {`{"type": "Progressive"}`, intstr.FromInt32(2), "c1= c2="},
		"a part of the clusters":     {`{"type": "Progressive", "progressive": {"maxFailures": 1}}`, intstr.FromString("30%"), "c1="},
		"the strategy has the field": {`{"type": "Progressive", "progressive": {"maxConcurrency": 1}}`, intstr.FromInt32(2), "c1="},
		"without decision groups":    {`{"type": "Progressive"}`, intstr.IntOrString{}, "c1= c2= c3="},
		"another type":               {`{"type": "All"}`, intstr.FromInt32(1), "c1= c2= c3="},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, `{"placementRef": {"name": "edge"}, "serving": {}, "rolloutStrategy": `+tc.strategy+`}`, threeProfiles()...)
			placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "edge"}}
			placement.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = tc.perGroup
			if err := h.placements.Add(placement); err != nil {
				t.Fatal(err)
			}
			addDecision(t, h, "c1", "c2", "c3")
			h.pass()
			if got := h.versions(); got != tc.children {
				t.Errorf("the first wave has %s, want %s", got, tc.children)
			}
			selection, err := h.r.Selection(fleetKey())
			if err != nil {
				t.Fatal(err)
			}
			var clusters []rollout.Cluster
			for cluster, group := range selection.Groups {
				clusters = append(clusters, rollout.Cluster{Name: cluster, Group: group, Phase: rollout.Waiting})
			}
			plan, err := rollout.Determine(selection.Strategy, clusters)
			if want := strings.ReplaceAll(tc.children, "=", ""); err != nil || strings.Join(sets.List(plan.Update), " ") != want {
				t.Errorf("by the selection the first wave has %v (error %v), want %s", sets.List(plan.Update), err, want)
			}
		})
	}
}
