// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/status"
)

func TestTransitions(t *testing.T) {
	c := func(condition string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: condition, Status: status, Reason: reason, Message: "because"}
	}
	for name, tc := range map[string]struct {
		reason    string
		last, now []metav1.Condition
		want      []transitionEvent
	}{
		"nothing": {reason: "Nothing has happened."},
		"the first status": {
			reason: "What is wrong from the start is told, what is well only of Ready.",
			now: []metav1.Condition{
				c(api.Ready, metav1.ConditionFalse, "A"), c(api.TargetClusterResolved, metav1.ConditionFalse, "A"),
				c(api.DependenciesInstalled, metav1.ConditionTrue, "B"), c(api.InstallSucceeded, metav1.ConditionUnknown, "C"),
			},
			want: []transitionEvent{{"Warning", "A", "TargetClusterResolved is False: because"}},
		},
		"ready": {
			reason: "The way there is over.",
			last:   []metav1.Condition{c(api.Ready, metav1.ConditionUnknown, "A"), c(api.InstallSucceeded, metav1.ConditionUnknown, "A")},
			now:    []metav1.Condition{c(api.Ready, metav1.ConditionTrue, "Ready"), c(api.InstallSucceeded, metav1.ConditionTrue, "Applied")},
			want:   []transitionEvent{{"Normal", "Ready", "Ready is True"}},
		},
		"fixed": {
			reason: "Whoever was told that it is wrong is told that it is not any more.",
			last:   []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "A")},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionTrue, "Applied")},
			want:   []transitionEvent{{"Normal", "Applied", "InstallSucceeded is True"}},
		},
		"broken": {
			reason: "It is a warning.",
			last:   []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionTrue, "Applied")},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "A")},
			want:   []transitionEvent{{"Warning", "A", "InstallSucceeded is False: because"}},
		},
		"broken for another reason": {
			reason: "That is another fact.",
			last:   []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "A")},
			now:    []metav1.Condition{c(api.InstallSucceeded, metav1.ConditionFalse, "B")},
			want:   []transitionEvent{{"Warning", "B", "InstallSucceeded is False: because"}},
		},
		"a rendering that waits": {
			reason: "A cluster that waits for its turn is no fault.",
			now:    []metav1.Condition{c(api.RenderingCurrent, metav1.ConditionFalse, api.ReasonRenderingWaits)},
			want:   []transitionEvent{{"Normal", api.ReasonRenderingWaits, "because"}},
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
			if diff := cmp.Diff(tc.want, transitionEvents(tc.last, tc.now), cmp.AllowUnexported(transitionEvent{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTransitionTimes(t *testing.T) {
	old, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	last := []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, LastTransitionTime: old}, {Type: "Other", Status: metav1.ConditionTrue, LastTransitionTime: old},
	}
	got := []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "Another"}, {Type: "Other", Status: metav1.ConditionFalse}, {Type: "New", Status: metav1.ConditionTrue},
	}
	setTransitionTimes(got, last, now)
	for i, want := range []metav1.Time{old, now, now} {
		if !got[i].LastTransitionTime.Equal(&want) {
			t.Errorf("%s has been so since %s, want %s", got[i].Type, got[i].LastTransitionTime, want)
		}
	}
}

// TestHealthIsComputable holds that every kind of resource has observedGeneration and Ready, from which kstatus and the health checks of
// docs/gitops.md compute the health.
func TestHealthIsComputable(t *testing.T) {
	for name, config := range map[string]*unstructured.Unstructured{
		"an installation":       serving("self", 100),
		"a fleet configuration": serving("self", 100, refersToNothing),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, config)
			h.settle("self")
			got, err := readStatus(h.config("self"))
			if err != nil {
				t.Fatal(err)
			}
			if want := h.config("self").GetGeneration(); want == 0 || got.ObservedGeneration != want {
				t.Errorf("observedGeneration is %d, the generation %d", got.ObservedGeneration, want)
			}
			if h.findCondition(api.Ready) == nil {
				t.Errorf("the conditions are %q, without Ready", h.conditions("self"))
			}
		})
	}
}

func TestStatusEquals(t *testing.T) {
	base := func() resourceStatus {
		return resourceStatus{ObservedGeneration: 1, Version: "1.23.0", Conditions: []metav1.Condition{
			{Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: "M", LastTransitionTime: metav1.Unix(1, 0)}, {Type: "B", Status: metav1.ConditionTrue},
		}}
	}
	for name, tc := range map[string]struct {
		change func(*resourceStatus)
		want   bool
	}{
		"nothing":    {func(*resourceStatus) {}, true},
		"the order":  {func(r *resourceStatus) { r.Conditions[0], r.Conditions[1] = r.Conditions[1], r.Conditions[0] }, true},
		"a time":     {func(r *resourceStatus) { r.Conditions[0].LastTransitionTime = metav1.Unix(2, 5) }, true},
		"generation": {func(r *resourceStatus) { r.ObservedGeneration++ }, false},
		"version":    {func(r *resourceStatus) { r.Version = "" }, false},
		"annotation": {func(r *resourceStatus) { r.Annotations = map[string]string{api.DeliveredRenderingAnnotation: "a"} }, false},
		"status":     {func(r *resourceStatus) { r.Conditions[0].Status = metav1.ConditionFalse }, false},
		"reason":     {func(r *resourceStatus) { r.Conditions[0].Reason = "" }, false},
		"message":    {func(r *resourceStatus) { r.Conditions[0].Message = "" }, false},
		"type":       {func(r *resourceStatus) { r.Conditions[0].Type = "C" }, false},
		"one less":   {func(r *resourceStatus) { r.Conditions = r.Conditions[:1] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			other := base()
			tc.change(&other)
			if got := base().equalsIgnoringTimes(other); got != tc.want {
				t.Errorf("it is the same: %v, want %v", got, tc.want)
			}
			if got := other.equalsIgnoringTimes(base()); got != tc.want {
				t.Errorf("the other way around it is the same: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestReadyAfter holds that the time to Ready is reported once for each time that a resource becomes Ready.
func TestReadyAfter(t *testing.T) {
	ready := func(status metav1.ConditionStatus, since int64) resourceStatus {
		return resourceStatus{Conditions: []metav1.Condition{{Type: api.Ready, Status: status, LastTransitionTime: metav1.Unix(since, 0)}}}
	}
	config := &unstructured.Unstructured{Object: map[string]any{}}
	config.SetCreationTimestamp(metav1.Unix(1000, 0))
	for name, tc := range map[string]struct {
		last, now resourceStatus
		want      []time.Duration
	}{
		"a resource that is Ready for the first time counts from its creation": {resourceStatus{}, ready(metav1.ConditionTrue, 1060), []time.Duration{time.Minute}},
		"a resource that is Ready again counts from the end of Ready":          {ready(metav1.ConditionFalse, 1050), ready(metav1.ConditionTrue, 1060), []time.Duration{10 * time.Second}},
		"a resource that stays Ready has no time":                              {ready(metav1.ConditionTrue, 1050), ready(metav1.ConditionTrue, 1050), nil},
		"a resource that is not Ready has no time":                             {ready(metav1.ConditionTrue, 1050), ready(metav1.ConditionFalse, 1060), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []time.Duration
			w := &StatusWriter{Component: api.Serving, ReadyAfter: func(_ api.Component, _ *unstructured.Unstructured, after time.Duration) { got = append(got, after) }}
			w.reportReady(config, tc.last, tc.now)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeliveredRendering holds that the status of a resource without a work agent names the rendering that the cluster got completely,
// and keeps the annotations of other writers.
func TestDeliveredRendering(t *testing.T) {
	resolved := status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved}
	digest := strings.Repeat("0123456789abcdef", 4)
	bundle := &render.Bundle{Component: api.Serving, Version: "1.23.0", Digest: digest}
	record := func(rendering string) map[string]string {
		return map[string]string{"other": "kept", api.DeliveredRenderingAnnotation: rendering}
	}
	for name, tc := range map[string]struct {
		finalizer string
		in        status.Installation
		want      map[string]string
	}{
		"a complete installation":     {api.DirectFinalizer, status.Installation{Owned: true, Target: resolved, Bundle: bundle}, record(digest[:12])},
		"an installation that waits":  {api.DirectFinalizer, status.Installation{Owned: true, Target: resolved, Bundle: bundle, Observation: delivery.Observation{Waiting: "x"}}, record("old")},
		"a spec without a bundle":     {api.DirectFinalizer, status.Installation{Owned: true, Target: resolved, Fault: &render.Error{Reason: api.ReasonInvalidSpec}}, record("old")},
		"a cluster with a work agent": {api.InstallFinalizer, status.Installation{Owned: true, Target: resolved, Bundle: bundle}, record("old")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(func(c *unstructured.Unstructured) {
				c.SetFinalizers([]string{tc.finalizer})
				c.Object["status"] = map[string]any{"annotations": map[string]any{"other": "kept", api.DeliveredRenderingAnnotation: "old"}}
			}))
			if _, err := w.r.Status.writeInstallation(t.Context(), w.config(), &tc.in); err != nil {
				t.Fatal(err)
			}
			got, err := readStatus(w.config())
			if err != nil || len(got.Conditions) == 0 {
				t.Fatalf("the status is %+v, error %v", got, err)
			}
			if diff := cmp.Diff(tc.want, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFleetRevision holds that every status of a child of a KnativeFleet has the revision of the child, that another revision alone leads to one
// write, and that annotations of other writers stay.
func TestFleetRevision(t *testing.T) {
	deleted := func(c *unstructured.Unstructured) {
		beingDeleted(c)
		c.SetFinalizers([]string{operatorFinalizer(api.Serving)})
	}
	for name, tc := range map[string]struct {
		options []func(*unstructured.Unstructured)
		begin   func(h *fakeHub)
	}{
		"a Ready resource":       {begin: func(h *fakeHub) { h.delivered() }},
		"an unresolved resource": {begin: func(h *fakeHub) { h.profiles = nil }},
		"a refused spec":         {begin: func(h *fakeHub) { h.bundleErr = &render.Error{Reason: api.ReasonInvalidSpec} }},
		"a conflict":             {begin: func(h *fakeHub) { h.m.Finder.Operator = func() string { return "Deployment" } }},
		"a deleted resource without an installation": {[]func(*unstructured.Unstructured){deleted}, func(*fakeHub) {}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100, tc.options...))
			h.settle("self")
			tc.begin(h)
			h.changeConfig("self", func(c *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(c.Object, "kept", "status", "annotations", "other")
			})
			h.settle("self")
			h.checkFleetRevision("r1")
			h.checkFleetRevision("r2")
		})
	}
}

// checkFleetRevision gives the resource a revision of a KnativeFleet, and fails the test unless one write of the status follows.
func (h *fakeHub) checkFleetRevision(revision string) {
	h.t.Helper()
	h.changeConfig("self", func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{api.FleetRevisionAnnotation: revision})
	})
	if got := h.mustReconcile("self"); !slices.Equal(got, []string{patchStatus}) {
		h.t.Errorf("with revision %s the manager writes %q", revision, got)
	}
	if got := h.mustReconcile("self"); len(got) > 0 {
		h.t.Errorf("at rest the manager writes %q", got)
	}
	got, err := readStatus(h.config("self"))
	if err != nil {
		h.t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"other": "kept", api.FleetRevisionAnnotation: revision}, got.Annotations); diff != "" {
		h.t.Errorf("annotations of the status (-want +got):\n%s", diff)
	}
}

// TestNewerConditions holds that every writer of the status keeps a condition whose type only a newer manager knows, with every field,
// and that such a condition causes no write.
func TestNewerConditions(t *testing.T) {
	newer := map[string]any{
		"type": "OfANewerManager", "status": "True", "reason": "Newer", "message": "m", "severity": "Info", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}
	stale := map[string]any{"type": api.SettingsEffective, "status": "False", "reason": api.ReasonCheckSettings, "message": "m"}
	for name, tc := range map[string]struct {
		options []func(*unstructured.Unstructured)
		// change makes the manager write the status again.
		change func(h *fakeHub)
		want   string
	}{
		"an installation": {
			change: func(h *fakeHub) { h.delivered() }, want: "Ready True Ready",
		},
		"a fleet configuration": {
			options: []func(*unstructured.Unstructured){refersToNothing},
			change: func(h *fakeHub) {
				h.changeConfig("self", func(c *unstructured.Unstructured) { c.SetGeneration(c.GetGeneration() + 1) })
			},
			want: "Ready True Unused",
		},
		"a conflict": {
			change: func(h *fakeHub) { h.m.Finder.Operator = func() string { return "Deployment" } }, want: "Ready False Conflict",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100, tc.options...))
			h.settle("self")
			h.addConditions("self", newer, stale)
			h.settle("self")
			tc.change(h)
			h.settle("self")
			if got := h.mustReconcile("self"); len(got) > 0 {
				t.Errorf("at rest the manager writes %q", got)
			}
			if got := h.conditions("self"); len(got) == 0 || got[0] != tc.want {
				t.Errorf("the conditions are %q, want %q first", got, tc.want)
			}
			stored, _, _ := unstructured.NestedSlice(h.config("self").Object, "status", "conditions")
			if diff := cmp.Diff([]any{newer}, hub.ConditionsOfOthers(stored, conditionTypes())); diff != "" {
				t.Errorf("conditions of a newer manager (-want +got):\n%s", diff)
			}
			if h.findCondition(api.SettingsEffective) != nil {
				t.Errorf("a condition of this manager stays without a reason: %q", h.conditions("self"))
			}
		})
	}
}

// addConditions appends conditions to the status of a resource as another writer would.
func (h *fakeHub) addConditions(name string, added ...any) {
	h.t.Helper()
	h.changeConfig(name, func(c *unstructured.Unstructured) {
		conditions, _, err := unstructured.NestedSlice(c.Object, "status", "conditions")
		if err == nil {
			err = unstructured.SetNestedSlice(c.Object, append(conditions, added...), "status", "conditions")
		}
		if err != nil {
			h.t.Fatal(err)
		}
	})
}
