// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// dimension is one thing that a forger, or chance, may vary; one of its values is what OCM would make.
type dimension struct {
	name   string
	values map[string]change
	honest []string
}

func dimensions() []dimension {
	relabel := func(labels map[string]string) change { return func(in *Input) { in.Cluster.Labels = labels } }
	return []dimension{
		{"manager", map[string]change{
			"ocm": managedBy(api.ClusterManagerOCM), "other": managedBy("other"), "none": managedBy(""), "case": managedBy("Open-Cluster-Management"),
		}, []string{"ocm"}},
		{"label", map[string]change{
			"c1": labelled("c1"), "prod": labelled("prod"), "empty": labelled(""),
			"none": func(in *Input) { delete(in.Profile.Labels, clusterv1.ClusterNameLabelKey) },
		}, []string{"c1"}},
		{"cluster", map[string]change{
			"c1": clusterNamed("c1"), "prod": clusterNamed("prod"), "none": noCluster,
		}, []string{"c1"}},
		{"binding", map[string]change{
			"bound": bound(metav1.ConditionTrue), "not bound": bound(metav1.ConditionFalse), "unknown": bound(metav1.ConditionUnknown),
			"elsewhere": func(in *Input) { in.Bindings[0].Namespace = "other" },
			"renamed":   func(in *Input) { in.Bindings[0].Name = "other" },
			"of prod":   func(in *Input) { in.Bindings[0].Name, in.Bindings[0].Spec.ClusterSet = "prod", "prod" },
			"none":      func(in *Input) { in.Bindings = nil },
		}, []string{"bound"}},
		{"set", map[string]change{
			"exclusive":   func(*Input) {},
			"by labels":   setSelects(&metav1.LabelSelector{MatchLabels: map[string]string{clusterv1beta2.ClusterSetLabel: "dev"}}),
			"no selector": setSelects(nil),
			"unknown":     func(in *Input) { in.Sets[0].Spec.ClusterSelector.SelectorType = "unknown" },
			"none":        func(in *Input) { in.Sets = in.Sets[1:] },
		}, []string{"exclusive", "by labels"}},
		{"cluster's set", map[string]change{
			"dev": relabel(map[string]string{clusterv1beta2.ClusterSetLabel: "dev"}), "test": relabel(map[string]string{clusterv1beta2.ClusterSetLabel: "test"}),
			"none": relabel(nil),
		}, []string{"dev"}},
		{"delivery", map[string]change{
			"default": func(*Input) {}, "direct": asksFor(api.DeliveryDirect),
		}, []string{"default", "direct"}},
		{"reference", map[string]change{
			"own": func(*Input) {}, "foreign": fromElsewhere,
		}, []string{"own"}},
	}
}

// combination is one value of every dimension.
type combination struct {
	chosen  []string
	changes []change
	honest  bool
}

// combinations are all that begin with this one.
func combinations(rest []dimension, begun combination) []combination {
	if len(rest) == 0 {
		return []combination{begun}
	}
	var out []combination
	for value, c := range rest[0].values {
		out = append(out, combinations(rest[1:], combination{
			chosen: append(slices.Clone(begun.chosen), rest[0].name+": "+value),
			// What takes an object away comes after what changes it.
			changes: append([]change{c}, begun.changes...),
			honest:  begun.honest && slices.Contains(rest[0].honest, value),
		})...)
	}
	return out
}

// TestForgedNeverMaps goes through every combination: a ManagedCluster is the target exactly when everything is as OCM
// makes it.
func TestForgedNeverMaps(t *testing.T) {
	mapped := 0
	all := combinations(dimensions(), combination{honest: true})
	for _, c := range all {
		got := Resolve(input(pulled, c.changes...))
		isMapped := got.Target != nil && got.Target.ManagedCluster != ""
		if isMapped {
			mapped++
		}
		if isMapped != c.honest {
			t.Errorf("%q: honest is %v, and the target is %+v: %s", c.chosen, c.honest, got.Target, got.Message)
		}
		if got.Target == nil && got.Resolved() {
			t.Errorf("%q: resolved without a target", c.chosen)
		}
	}
	if mapped == 0 || len(all) < 10000 {
		t.Errorf("%d of %d combinations map", mapped, len(all))
	}
}
