// Copyright Contributors to the Open Cluster Management project

package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestTransitions(t *testing.T) {
	c := func(condition string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: condition, Status: status, Reason: reason, Message: "because"}
	}
	for name, tc := range map[string]struct {
		reason    string
		last, now []metav1.Condition
		want      []event
	}{
		"nothing": {reason: "Nothing has happened."},
		"the first look": {
			reason: "What is wrong from the start is told, what is well only of Ready.",
			now: []metav1.Condition{
				c(api.Ready, metav1.ConditionFalse, "A"), c(api.TargetClusterResolved, metav1.ConditionFalse, "A"),
				c(api.DependenciesInstalled, metav1.ConditionTrue, "B"), c(api.InstallSucceeded, metav1.ConditionUnknown, "C"),
			},
			want: []event{{"Warning", "A", "TargetClusterResolved is False: because"}},
		},
		"ready": {
			reason: "The way there is over.",
			last:   []metav1.Condition{c(api.Ready, metav1.ConditionUnknown, "A"), c(api.InstallSucceeded, metav1.ConditionUnknown, "A")},
			now:    []metav1.Condition{c(api.Ready, metav1.ConditionTrue, "Ready"), c(api.InstallSucceeded, metav1.ConditionTrue, "Applied")},
			want:   []event{{"Normal", "Ready", "Ready is True"}},
		},
		"mended": {
			reason: "Whoever was told that it is wrong is told that it is not any more.",
			last:   []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "A")},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionTrue, "Applied")},
			want:   []event{{"Normal", "Applied", "InstallSucceeded is True"}},
		},
		"broken": {
			reason: "It is a warning.",
			last:   []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionTrue, "Applied")},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "A")},
			want:   []event{{"Warning", "A", "InstallSucceeded is False: because"}},
		},
		"broken for another reason": {
			reason: "That is another fact.",
			last:   []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "A")},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "B")},
			want:   []event{{"Warning", "B", "InstallSucceeded is False: because"}},
		},
		"another message": {
			reason: "Counting down is no news.",
			last:   []metav1.Condition{{Type: api.InstallSucceeded, Status: metav1.ConditionFalse, Reason: "A", Message: "2 left"}},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "A")},
		},
		"unknown": {
			reason: "It is a step on the way.",
			last:   []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionTrue, "Applied")},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionUnknown, "Delivering")},
		},
		"the same": {
			reason: "Nothing has happened.",
			last:   []metav1.Condition{c(api.Ready, metav1.ConditionTrue, "Ready")}, now: []metav1.Condition{c(api.Ready, metav1.ConditionTrue, "Ready")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, transitions(tc.last, tc.now), cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNote(t *testing.T) {
	if got := Note(strings.Repeat("a", MaxNote)); got != strings.Repeat("a", MaxNote) {
		t.Errorf("a note that is short enough has become %d bytes", len(got))
	}
	if got := Note(strings.Repeat("a", MaxNote+1)); len(got) != MaxNote || !strings.HasSuffix(got, "a...") {
		t.Errorf("a note has %d bytes", len(got))
	}
}

func TestSince(t *testing.T) {
	old, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	last := []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, LastTransitionTime: old}, {Type: "Other", Status: metav1.ConditionTrue, LastTransitionTime: old},
	}
	got := []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "Another"}, {Type: "Other", Status: metav1.ConditionFalse}, {Type: "New", Status: metav1.ConditionTrue},
	}
	since(got, last, now)
	for i, want := range []metav1.Time{old, now, now} {
		if !got[i].LastTransitionTime.Equal(&want) {
			t.Errorf("%s has been so since %s, want %s", got[i].Type, got[i].LastTransitionTime, want)
		}
	}
}

func TestSame(t *testing.T) {
	base := func() Status {
		return Status{ObservedGeneration: 1, Version: "1.23.0", Conditions: []metav1.Condition{
			{Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: "M", LastTransitionTime: metav1.Unix(1, 0)}, {Type: "B", Status: metav1.ConditionTrue},
		}}
	}
	for name, tc := range map[string]struct {
		change func(*Status)
		want   bool
	}{
		"nothing":    {func(*Status) {}, true},
		"the order":  {func(r *Status) { r.Conditions[0], r.Conditions[1] = r.Conditions[1], r.Conditions[0] }, true},
		"a time":     {func(r *Status) { r.Conditions[0].LastTransitionTime = metav1.Unix(2, 5) }, true},
		"generation": {func(r *Status) { r.ObservedGeneration++ }, false},
		"version":    {func(r *Status) { r.Version = "" }, false},
		"status":     {func(r *Status) { r.Conditions[0].Status = metav1.ConditionFalse }, false},
		"reason":     {func(r *Status) { r.Conditions[0].Reason = "" }, false},
		"message":    {func(r *Status) { r.Conditions[0].Message = "" }, false},
		"type":       {func(r *Status) { r.Conditions[0].Type = "C" }, false},
		"one less":   {func(r *Status) { r.Conditions = r.Conditions[:1] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			other := base()
			tc.change(&other)
			if got := base().Same(other); got != tc.want {
				t.Errorf("it is the same: %v, want %v", got, tc.want)
			}
			if got := other.Same(base()); got != tc.want {
				t.Errorf("the other way around it is the same: %v, want %v", got, tc.want)
			}
		})
	}
}
