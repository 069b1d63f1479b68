// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestMaxRemoval(t *testing.T) {
	for value, want := range map[string]map[int]int{
		"10%":  {0: 1, 1: 1, 9: 1, 19: 1, 20: 2, 1000: 100},
		"0%":   {10: 0},
		"100%": {10: 10},
		"3":    {1: 3, 100: 3},
		"0":    {100: 0},
	} {
		parsed, err := ParseMaxRemoval(value)
		if err != nil {
			t.Errorf("%q: %v", value, err)
		}
		for fleet, n := range want {
			if got := Limit(parsed, fleet); got != n {
				t.Errorf("%q of %d is %d, want %d", value, fleet, got, n)
			}
		}
	}
	for _, value := range []string{"", "ten", "-1", "-5%", "101%", "10 %", "1.5%"} {
		if _, err := ParseMaxRemoval(value); err == nil || !strings.Contains(err.Error(), "number, or a percentage") {
			t.Errorf("%q: error %v", value, err)
		}
	}
}

func TestRemovalTimes(t *testing.T) {
	now := time.Unix(100*3600, 0)
	written := removalTimes{"a": now, "c": now, "b": now.Add(-59 * time.Minute), "old": now.Add(-time.Hour)}
	if got, want := written.String(), "5940:old,5941:b,6000:a.c"; got != want {
		t.Errorf("written as %q, want %q", got, want)
	}
	want := removalTimes{"a": now, "c": now, "b": now.Add(-59 * time.Minute)}
	for _, text := range []string{written.String(), written.String() + ",x:y,5999,,:z, 6000:q"} {
		got, isAhead := parseRemovals(text, now)
		if diff := cmp.Diff(want, got); diff != "" || isAhead {
			t.Errorf("%q (-want +got), ahead %t:\n%s", text, isAhead, diff)
		}
	}
	want["ahead"] = now
	got, isAhead := parseRemovals(written.String()+","+removalTimes{"ahead": now.Add(2 * time.Hour)}.String(), now)
	if diff := cmp.Diff(want, got); diff != "" || !isAhead {
		t.Errorf("with the time of another clock (-want +got), ahead %t:\n%s", isAhead, diff)
	}
}

func TestDetermineBudget(t *testing.T) {
	now := time.Unix(100000, 0)
	fresh := func(ids ...string) []candidate {
		var out []candidate
		for _, id := range ids {
			out = append(out, candidate{id: id, deleted: now.Add(-time.Minute)})
		}
		return out
	}
	overBudget := func(ids ...string) []candidate {
		out := fresh(ids...)
		for i := range out {
			out[i].overBudget = true
		}
		return out
	}
	justNow := candidate{id: "new", deleted: now.Add(-4 * time.Second)}
	for name, tc := range map[string]struct {
		reason string
		budget budget
		want   budgetDecision
	}{
		"nobody": {
			reason: "There is nothing to decide.",
			budget: budget{fleet: 10},
		},
		"as many as may": {
			reason: "That is what maxRemoval is for.",
			budget: budget{candidates: fresh("a", "b"), fleet: 20},
			want:   budgetDecision{allowed: []string{"a", "b"}},
		},
		"one too many": {
			reason: "A few of many would be damage by the same mistake.",
			budget: budget{candidates: fresh("a", "b", "c"), fleet: 20},
			want:   budgetDecision{held: []string{"a", "b", "c"}},
		},
		"the last of a batch is young": {
			reason: "OCM deletes one by one.",
			budget: budget{candidates: []candidate{{id: "a", deleted: now.Add(-5 * time.Second)}, justNow}, fleet: 20},
			want:   budgetDecision{waiting: []string{"a", "new"}, wait: 6 * time.Second},
		},
		"deletions go on for a minute": {
			reason: "Deletions that never pause must not postpone the decision for ever.",
			budget: budget{candidates: append(fresh("a"), justNow), fleet: 1},
			want:   budgetDecision{held: []string{"a", "new"}},
		},
		"deleted in the future": {
			reason: "Clocks differ; the wait is bounded.",
			budget: budget{candidates: []candidate{{id: "a", deleted: now.Add(time.Hour)}}, fleet: 20},
			want:   budgetDecision{waiting: []string{"a"}, wait: batchDelay},
		},
		"others went within the hour": {
			reason: "Many small steps are as bad as a big one.",
			budget: budget{candidates: fresh("a"), removed: removalTimes{"x": now, "y": now}, fleet: 20},
			want:   budgetDecision{held: []string{"a"}},
		},
		"counted before": {
			reason: "A manager that is killed after it has counted goes on.",
			budget: budget{candidates: fresh("a", "b"), removed: removalTimes{"a": now, "b": now}, fleet: 20},
			want:   budgetDecision{allowed: []string{"a", "b"}},
		},
		"held before, and alone now": {
			reason: "While a mistake is corrected, the last cluster may not become few enough.",
			budget: budget{candidates: overBudget("a"), fleet: 20},
			want:   budgetDecision{held: []string{"a"}},
		},
		"others are held": {
			reason: "They are part of the same mistake until somebody says otherwise.",
			budget: budget{candidates: append(overBudget("a", "b"), fresh("c")...), fleet: 20},
			want:   budgetDecision{held: []string{"a", "b", "c"}},
		},
		"others just came back": {
			reason: "They may follow in a moment.",
			budget: budget{candidates: fresh("a"), settling: 2, fleet: 20},
			want:   budgetDecision{held: []string{"a"}},
		},
		"one of one": {
			reason: "At least one may go.",
			budget: budget{candidates: fresh("a"), fleet: 1},
			want:   budgetDecision{allowed: []string{"a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.budget.now, tc.budget.maxRemoval = now, intstr.FromString("10%")
			got := determineBudget(&tc.budget)
			slices.Sort(got.held)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(budgetDecision{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
