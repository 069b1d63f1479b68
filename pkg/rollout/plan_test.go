// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"
)

// TestFutureTimes holds that a cluster whose phase changed in the future keeps no place of the wave for ever.
func TestFutureTimes(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		reason          string
		phase           Phase
		since           time.Time
		timedOut, holds bool
	}{
		"a cluster progresses":                    {reason: "progressDeadline has not passed.", phase: Progressing, since: now, holds: true},
		"a cluster progresses by a clock ahead":   {reason: "Clocks differ.", phase: Progressing, since: now.Add(time.Minute), holds: true},
		"a cluster progresses since the future":   {reason: "The time is forged.", phase: Progressing, since: now.Add(24 * time.Hour), timedOut: true},
		"a cluster succeeded":                     {reason: "minSuccessTime has not passed.", phase: Succeeded, since: now, holds: true},
		"a cluster succeeded in the future":       {reason: "The time is forged.", phase: Succeeded, since: now.Add(24 * time.Hour)},
		"a cluster succeeded a long time ago":     {reason: "minSuccessTime has passed.", phase: Succeeded, since: now.Add(-24 * time.Hour)},
		"a cluster progresses since the past":     {reason: "progressDeadline has passed.", phase: Progressing, since: now.Add(-24 * time.Hour), timedOut: true},
		"a cluster progresses since unknown time": {reason: "progressDeadline counts from the beginning.", phase: Progressing, timedOut: true},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := Determine(clusterv1alpha1.RolloutStrategy{
				Type: clusterv1alpha1.Progressive,
				Progressive: &clusterv1alpha1.RolloutProgressive{
					MaxConcurrency: intstr.FromInt32(1),
					RolloutConfig: clusterv1alpha1.RolloutConfig{
						ProgressDeadline: "10m", MaxFailures: intstr.FromString("100%"), MinSuccessTime: metav1.Duration{Duration: 10 * time.Minute},
					},
				},
			}, []Cluster{{Name: "cluster1", Phase: tc.phase, Since: tc.since}, {Name: "cluster2", Phase: Waiting}})
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.TimedOut.Has("cluster1"); got != tc.timedOut {
				t.Errorf("%s cluster1 timed out: %t", tc.reason, got)
			}
			if got := !plan.Update.Has("cluster2"); got != tc.holds {
				t.Errorf("%s cluster2 waits: %t", tc.reason, got)
			}
		})
	}
}

// TestGroupsAfterFailures holds that permitted failures begin no group before the groups before have the change, and that no failure of a
// mandatory group is permitted.
func TestGroupsAfterFailures(t *testing.T) {
	config := clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m", MaxFailures: intstr.FromInt32(1)}
	perGroup := clusterv1alpha1.RolloutStrategy{
		Type: clusterv1alpha1.ProgressivePerGroup, ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{RolloutConfig: config},
	}
	strict := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup}
	withMandatory := func(index int32) clusterv1alpha1.RolloutStrategy {
		return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup, ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{
			RolloutConfig:           config,
			MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupIndex: index}}},
		}}
	}
	canary := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		RolloutConfig:           config,
		MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupIndex: 0}}},
	}}
	now := time.Now()
	late := now.Add(-time.Hour)
	all := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All}
	// in is the cluster of a group of its own.
	in := func(group int32, phase Phase, since time.Time) Cluster {
		return Cluster{Name: string(rune('a' + group)), Group: sdkv1beta1.GroupKey{GroupIndex: group}, Phase: phase, Since: since}
	}
	for name, tc := range map[string]struct {
		strategy clusterv1alpha1.RolloutStrategy
		clusters []Cluster
		want     []string
		stopped  bool
	}{
		"the first group failed":                         {strategy: perGroup, clusters: []Cluster{in(0, Progressing, late), in(1, Waiting, now), in(2, Waiting, now)}, want: []string{"b"}},
		"the second group progresses":                    {strategy: perGroup, clusters: []Cluster{in(0, Progressing, late), in(1, Progressing, now), in(2, Waiting, now)}},
		"the second group has the change":                {strategy: perGroup, clusters: []Cluster{in(0, Progressing, late), in(1, Succeeded, now), in(2, Waiting, now)}, want: []string{"c"}},
		"the first group cannot work":                    {strategy: perGroup, clusters: []Cluster{in(0, Failed, late), in(1, Waiting, now), in(2, Waiting, now)}, want: []string{"b"}},
		"the last group cannot work":                     {strategy: perGroup, clusters: []Cluster{in(0, Succeeded, late), in(1, Waiting, now), in(2, Failed, late)}, want: []string{"b"}},
		"the last group cannot work, without a deadline": {strategy: strict, clusters: []Cluster{in(0, Succeeded, late), in(1, Waiting, now), in(2, Failed, late)}, want: []string{"b"}},
		"the first group cannot work, without failures":  {strategy: strict, clusters: []Cluster{in(0, Failed, late), in(1, Waiting, now)}, stopped: true},
		"the mandatory group cannot work":                {strategy: canary, clusters: []Cluster{in(0, Failed, now), in(1, Waiting, now)}, stopped: true},
		"the mandatory group could never work":           {strategy: canary, clusters: []Cluster{in(0, Failed, late), in(1, Waiting, now)}, stopped: true},
		"the mandatory group has the change":             {strategy: canary, clusters: []Cluster{in(0, Succeeded, now), in(1, Failed, now), in(2, Waiting, now)}, want: []string{"c"}},

		"a later cluster is late after the mandatory group":    {strategy: canary, clusters: []Cluster{in(0, Succeeded, late), in(1, Progressing, late), in(2, Waiting, now)}, want: []string{"c"}},
		"a later group cannot work after the mandatory group":  {strategy: withMandatory(0), clusters: []Cluster{in(0, Succeeded, late), in(1, Failed, now), in(2, Waiting, now)}, want: []string{"c"}},
		"a group before the mandatory group does not work":     {strategy: withMandatory(1), clusters: []Cluster{in(0, Progressing, now), in(1, Waiting, now)}, want: []string{"b"}},
		"the group before the mandatory group waits":           {strategy: withMandatory(1), clusters: []Cluster{in(0, Waiting, now), in(1, Progressing, now)}},
		"the first group has no cluster":                       {strategy: perGroup, clusters: []Cluster{in(1, Waiting, now)}, want: []string{"b"}},
		"the first group has no cluster, and no cluster waits": {strategy: all, clusters: []Cluster{in(1, Waiting, now)}, want: []string{"b"}},
		"a group between two groups has no cluster":            {strategy: perGroup, clusters: []Cluster{in(0, Succeeded, now), in(2, Waiting, now)}, want: []string{"c"}},
		"the mandatory group alone waits":                      {strategy: canary, clusters: []Cluster{in(0, Waiting, now)}, want: []string{"a"}},
		"the mandatory group has no cluster":                   {strategy: canary, clusters: []Cluster{in(1, Waiting, now)}, want: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := Determine(tc.strategy, tc.clusters)
			if err != nil {
				t.Fatal(err)
			}
			if got := sets.List(plan.Update); !slices.Equal(got, tc.want) || plan.Stopped != tc.stopped {
				t.Errorf("%q get the change, stopped %t; want %q, %t", got, plan.Stopped, tc.want, tc.stopped)
			}
		})
	}
}

// TestLateClusters holds that an open mandatory group does not hide the late clusters of other groups, nor the time at which a cluster is late.
func TestLateClusters(t *testing.T) {
	now := time.Now()
	plan, err := Determine(clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		RolloutConfig:           clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m", MaxFailures: intstr.FromInt32(2)},
		MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}}},
	}}, []Cluster{
		{Name: "a", Group: sdkv1beta1.GroupKey{GroupName: "canary"}, Phase: Waiting},
		{Name: "b", Phase: Progressing, Since: now.Add(-time.Hour)},
		{Name: "c", Phase: Progressing, Since: now},
	})
	if got := sets.List(plan.TimedOut); err != nil || !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q are late (%v)", got, err)
	}
	if plan.Recheck <= 0 || plan.Recheck > 10*time.Minute || !plan.Update.Has("a") {
		t.Errorf("the next pass follows in %s, and %q get the change", plan.Recheck, sets.List(plan.Update))
	}
}

// TestFailuresOfAllClusters holds that maxFailures of a Progressive rollout with a mandatory group refers to all clusters.
func TestFailuresOfAllClusters(t *testing.T) {
	for permitted, want := range map[intstr.IntOrString][]string{
		intstr.FromString("40%"): {"e"}, intstr.FromString("20%"): nil, intstr.FromInt32(5): {"e"}, intstr.FromInt32(6): nil,
	} {
		plan, err := Determine(clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
			RolloutConfig:           clusterv1alpha1.RolloutConfig{MaxFailures: permitted},
			MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}}},
		}}, []Cluster{
			{Name: "a", Group: sdkv1beta1.GroupKey{GroupName: "canary"}, Phase: Succeeded},
			{Name: "b", Phase: Succeeded},
			{Name: "c", Phase: Failed},
			{Name: "d", Phase: Failed},
			{Name: "e", Phase: Waiting},
		})
		if got := sets.List(plan.Update); err != nil || !slices.Equal(got, want) || plan.Stopped != (want == nil) {
			t.Errorf("with maxFailures %s %q get the change, stopped %t (%v)", permitted.String(), got, plan.Stopped, err)
		}
	}
}

// TestGroupsOfOneIndex holds that no cluster is lost when two groups have the same index.
func TestGroupsOfOneIndex(t *testing.T) {
	clusters := []Cluster{{Name: "cluster1", Group: sdkv1beta1.GroupKey{GroupName: "canary"}, Phase: Waiting}, {Name: "cluster2", Phase: Waiting}}
	plan, err := Determine(clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All}, clusters)
	if got := sets.List(plan.Update); err != nil || !slices.Equal(got, []string{"cluster1", "cluster2"}) {
		t.Errorf("%q get the change (%v)", got, err)
	}
}
