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
	base := func() reported {
		return reported{ObservedGeneration: 1, Version: "1.23.0", Conditions: []metav1.Condition{
			{Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: "M", LastTransitionTime: metav1.Unix(1, 0)}, {Type: "B", Status: metav1.ConditionTrue},
		}}
	}
	for name, tc := range map[string]struct {
		change func(*reported)
		want   bool
	}{
		"nothing":    {func(*reported) {}, true},
		"the order":  {func(r *reported) { r.Conditions[0], r.Conditions[1] = r.Conditions[1], r.Conditions[0] }, true},
		"a time":     {func(r *reported) { r.Conditions[0].LastTransitionTime = metav1.Unix(2, 5) }, true},
		"generation": {func(r *reported) { r.ObservedGeneration++ }, false},
		"version":    {func(r *reported) { r.Version = "" }, false},
		"status":     {func(r *reported) { r.Conditions[0].Status = metav1.ConditionFalse }, false},
		"reason":     {func(r *reported) { r.Conditions[0].Reason = "" }, false},
		"message":    {func(r *reported) { r.Conditions[0].Message = "" }, false},
		"type":       {func(r *reported) { r.Conditions[0].Type = "C" }, false},
		"one less":   {func(r *reported) { r.Conditions = r.Conditions[:1] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			other := base()
			tc.change(&other)
			if got := same(base(), other); got != tc.want {
				t.Errorf("it is the same: %v, want %v", got, tc.want)
			}
			if got := same(other, base()); got != tc.want {
				t.Errorf("the other way around it is the same: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestForeignStatus holds that what others write into a status stays there, and that what cannot be read is an error.
func TestForeignStatus(t *testing.T) {
	h := newHub(t, serving("self", 100, func(c *unstructured.Unstructured) {
		c.Object["status"] = map[string]any{
			"manifests": []any{"a"}, "version": "1.19.0", "conditions": []any{map[string]any{"type": "Other", "status": "True", "severity": "Info"}},
		}
	}))
	h.settle("self")
	status := h.config("self").Object["status"].(map[string]any) //nolint:forcetypeassert // it is one
	if diff := cmp.Diff([]any{"a"}, status["manifests"]); diff != "" {
		t.Errorf("manifests (-want +got):\n%s", diff)
	}
	if status["version"] != "1.19.0" {
		t.Errorf("version is %q before anything is installed", status["version"])
	}
	if got := h.conditions("self"); len(got) != len(api.ConditionTypes()) {
		t.Errorf("conditions are %q", got)
	}
	for _, broken := range []any{"none", map[string]any{"conditions": "none"}} {
		h = newHub(t, serving("self", 100, func(c *unstructured.Unstructured) { c.Object["status"] = broken }), serving("fleet", 100, refersToNothing, func(c *unstructured.Unstructured) {
			c.Object["status"] = broken
		}))
		for _, name := range []string{"self", "fleet"} {
			if _, err := h.reconcile(name); err == nil {
				t.Errorf("status %v of %s is overwritten", broken, name)
			}
		}
	}
}

// TestStatusOfSomethingGone holds that nobody is told of a resource that is gone.
func TestStatusOfSomethingGone(t *testing.T) {
	h := newHub(t, serving("fleet", 100, refersToNothing))
	h.fail = func(string) error {
		if h.config("fleet") != nil {
			h.delete("fleet")
		}
		return nil
	}
	if _, err := h.reconcile("fleet"); err != nil {
		t.Errorf("error is %v", err)
	}
	if told := h.told(); len(told) > 0 {
		t.Errorf("%q is told", told)
	}
	if result, err := h.reconcile("fleet"); err != nil || result.RequeueAfter != 0 {
		t.Errorf("a resource that is gone has result %v, error %v", result, err)
	}
}

// TestVersion holds that the version is the one that the cluster has.
func TestVersion(t *testing.T) {
	h := newHub(t, serving("self", 100))
	version := func() string {
		t.Helper()
		h.settle("self")
		v, _, _ := unstructured.NestedString(h.config("self").Object, "status", "version")
		return v
	}
	if v := version(); v != "" {
		t.Errorf("before anything is there it is %q", v)
	}
	h.delivered()
	if v := version(); v != "1.23.0" {
		t.Errorf("when it is applied it is %q", v)
	}
	next := *h.bundle
	next.Version, next.Digest = "1.24.0", "d2"
	h.bundle = &next
	h.unavailable()
	if v := version(); v != "1.23.0" || h.conditions("self")[4] != "InstallSucceeded True Applied" {
		t.Errorf("while the next one is on its way to a cluster out of sight it is %q, %q", v, h.conditions("self"))
	}
	h.cluster.Status.Conditions[1].Status = metav1.ConditionTrue
	if v := version(); v != "1.23.0" {
		t.Errorf("while the next one is on its way it is %q", v)
	}
	h.clock.SetTime(h.clock.Now().Add(time.Hour))
	h.delivered()
	if v := version(); v != "1.24.0" {
		t.Errorf("when the next one is applied it is %q", v)
	}
}
