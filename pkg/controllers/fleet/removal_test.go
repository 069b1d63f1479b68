// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/controllers/removalguard"
)

func TestPlanRemovals(t *testing.T) {
	now := time.Unix(100_000, 0)
	// deselect returns candidates that have been deselected for a minute.
	deselect := func(healthy ...bool) []removalCandidate {
		var out []removalCandidate
		for i, h := range healthy {
			child := &unstructured.Unstructured{}
			child.SetName(string(rune('a' + i)))
			c := removalCandidate{component: api.Serving, child: child, deselected: now.Add(-time.Minute), profile: newProfile(child.GetName())}
			if !h {
				setHealth(c.profile, metav1.ConditionUnknown)
			}
			out = append(out, c)
		}
		return out
	}
	fresh := deselect(true, true)
	fresh[1].deselected = now.Add(-time.Second)
	returned := deselect(true)
	returned[0].profile.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-20 * time.Second))

	for name, tc := range map[string]struct {
		in     removalInput
		remove int
		held   string
		wait   time.Duration
	}{
		"nothing is deselected": {in: removalInput{owned: 10, selected: 10}},
		"within the limit":      {in: removalInput{candidates: deselect(true), owned: 10, selected: 9}, remove: 1},
		"beyond the limit":      {in: removalInput{candidates: deselect(true, true), owned: 10, selected: 8}, held: fleetv1alpha1.ReasonMassRemoval},
		"confirmed":             {in: removalInput{candidates: deselect(true, true), owned: 10, selected: 8, confirmed: true}, remove: 2},
		"with the removals of the last hour": {
			in:   removalInput{candidates: deselect(true), owned: 10, selected: 9, removed: []fleetv1alpha1.Removals{{Count: 1}}},
			held: fleetv1alpha1.ReasonMassRemoval,
		},
		"removals of the last hour count as children": {
			in: removalInput{candidates: deselect(true), owned: 19, selected: 18, removed: []fleetv1alpha1.Removals{{Count: 1}}}, remove: 1,
		},
		"an empty selection":             {in: removalInput{candidates: deselect(true), owned: 1}, held: fleetv1alpha1.ReasonSelectionEmpty},
		"a confirmed empty selection":    {in: removalInput{candidates: deselect(true), owned: 1, confirmed: true}, remove: 1},
		"an unavailable cluster":         {in: removalInput{candidates: deselect(false), owned: 10, selected: 9}, held: fleetv1alpha1.ReasonClusterUnavailable},
		"an unavailable and another one": {in: removalInput{candidates: deselect(true, false), owned: 20, selected: 18}, remove: 1, held: fleetv1alpha1.ReasonClusterUnavailable},
		"a confirmation does not reach an unavailable cluster": {
			in: removalInput{candidates: deselect(false), owned: 1, confirmed: true}, held: fleetv1alpha1.ReasonClusterUnavailable,
		},
		"a cluster that was deselected a second ago holds the others": {
			in: removalInput{candidates: fresh, owned: 20, selected: 18}, held: fleetv1alpha1.ReasonSettling, wait: settleTime - time.Second,
		},
		"a cluster that returned a moment ago": {
			in: removalInput{candidates: returned, owned: 10, selected: 9}, held: fleetv1alpha1.ReasonSettling, wait: 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.now, tc.in.maxRemoval, tc.in.limit = now, intstr.FromString("10%"), removalguard.Limit
			plan := planRemovals(&tc.in)
			held := ""
			if plan.held != nil {
				held = plan.held.reason
			}
			if len(plan.remove) != tc.remove || held != tc.held || plan.wait != tc.wait {
				t.Errorf("%d removals, held %q, wait %s; want %d, %q, %s", len(plan.remove), held, plan.wait, tc.remove, tc.held, tc.wait)
			}
		})
	}
}

func TestRemovalsOfAnHourCount(t *testing.T) {
	start := time.Unix(120_000, 0)
	removed := recordRemovals(nil, 2, start)
	removed = recordRemovals(removed, 3, start.Add(30*time.Second))
	removed = recordRemovals(removed, 1, start.Add(2*time.Minute))
	if len(removed) != 2 || removed[0].Count != 5 || removed[1].Count != 1 {
		t.Errorf("the removals are %v", removed)
	}
	if kept := dropOldRemovals(removed, start.Add(removalWindow)); len(kept) != 1 || kept[0].Count != 1 {
		t.Errorf("after an hour the removals are %v", kept)
	}
}
