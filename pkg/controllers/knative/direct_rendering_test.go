// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/rollout"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

const oldRendering, newRendering = "aaaaaaaaaaaa", "bbbbbbbbbbbb"

// selfAnchor is the path of the anchor of the fixture.
const selfAnchor = "/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner"

// withRenderingCurrent returns a change that adds a condition to the status of a resource.
func withRenderingCurrent(current metav1.ConditionStatus, reason string) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) {
		c.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": api.RenderingCurrent, "status": string(current), "reason": reason, "message": "before", "lastTransitionTime": "2020-01-01T00:00:00Z",
		}}}
	}
}

// newRenderingFixture is a cluster that has Deployment activator by the old rendering of the spec, and a manager that renders the spec
// otherwise.
func newRenderingFixture(t *testing.T, changes ...func(*unstructured.Unstructured)) *directFixture {
	t.Helper()
	w := newDirectFixture(t, localServing(append([]func(*unstructured.Unstructured){directFinalized}, changes...)...))
	w.d.Renderings = &Renderings{}
	hash, err := revision.Hash(w.config())
	if err != nil {
		t.Fatal(err)
	}
	w.anchored("knative-serving/self", hubUID)
	anchor, _ := w.answers[selfAnchor].(map[string]any)
	u := &unstructured.Unstructured{Object: anchor}
	annotations := u.GetAnnotations()
	annotations[api.VersionAnnotation], annotations[api.RunningVersionAnnotation] = "1.22.0", "1.22.0"
	annotations[api.SpecHashAnnotation], annotations[api.DeliveredRenderingAnnotation] = hash, oldRendering
	u.SetAnnotations(annotations)
	anchor["data"] = map[string]any{"inventory": `{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"knative-serving","name":"activator","digest":"old"}` + "\n"}
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "knative-serving", "name": "activator"},
	}}
	w.bundle.Digest = newRendering
	w.bundle.Payload = []render.Object{{
		Unstructured: deployment, Class: render.Apply, Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, JSON: []byte("{}"),
	}}
	return w
}

// deliverRendering makes the anchor one of a cluster that has the rendering, which has no objects.
func (w *directFixture) deliverRendering() {
	anchor, _ := w.answers[selfAnchor].(map[string]any)
	u := &unstructured.Unstructured{Object: anchor}
	annotations := u.GetAnnotations()
	annotations[api.VersionAnnotation], annotations[api.RunningVersionAnnotation], annotations[api.DeliveredRenderingAnnotation] = "1.23.0", "1.23.0", newRendering
	u.SetAnnotations(annotations)
	anchor["data"], w.bundle.Payload = map[string]any{"inventory": "\n"}, nil
}

func (w *directFixture) report(t *testing.T) rollout.Report {
	t.Helper()
	report, ok := w.d.Renderings.Report(types.NamespacedName{Namespace: "knative-serving", Name: "self"})
	if !ok {
		t.Error("the pass has no report")
	}
	return report
}

// TestDirectRenderingWaits holds that a cluster keeps the rendering that it has, and what the resource says meanwhile.
func TestDirectRenderingWaits(t *testing.T) {
	w := newRenderingFixture(t)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); !slices.Equal(got, []string{directPatchStatus}) {
		t.Errorf("writes are %q", got)
	}
	c := w.condition(api.RenderingCurrent)
	if want := "rendering " + oldRendering + " runs, and rendering " + newRendering + " waits for the turn of the cluster; " +
		"the turn restores what the manager cannot restore before: Deployment.apps knative-serving/activator is gone"; c.Status != metav1.ConditionFalse ||
		c.Reason != api.ReasonRenderingWaits || c.Message != want {
		t.Errorf("RenderingCurrent is %+v", c)
	}
	if c := w.condition(api.InstallSucceeded); c.Status != metav1.ConditionTrue || c.Message != "version 1.22.0 is applied" {
		t.Errorf("InstallSucceeded is %+v", c)
	}
	if c := w.condition(api.DeploymentsAvailable); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "activator") {
		t.Errorf("DeploymentsAvailable is %+v", c)
	}
	if got := w.report(t); got != (rollout.Report{Rendering: newRendering, Waits: true}) {
		t.Errorf("the report is %+v", got)
	}
	s, err := readStatus(w.config())
	if err != nil || s.Version != "1.22.0" || s.Annotations[api.DeliveredRenderingAnnotation] != "" {
		t.Errorf("the status is %+v, the error %v", s, err)
	}
	if _, err := w.reconcile(); err != nil || len(w.written()) != 1 {
		t.Errorf("a second pass writes %q, error %v", w.written(), err)
	}
}

// TestRecordedRendering holds that a cluster which got its rendering only in part does not seem complete during the wait, and that the
// record of the hub stays.
func TestRecordedRendering(t *testing.T) {
	for record, want := range map[string]metav1.ConditionStatus{"cccccccccccc": metav1.ConditionUnknown, oldRendering: metav1.ConditionTrue} {
		w := newRenderingFixture(t, func(c *unstructured.Unstructured) {
			c.Object["status"] = map[string]any{"annotations": map[string]any{api.DeliveredRenderingAnnotation: record}}
		})
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		c := w.condition(api.InstallSucceeded)
		if c.Status != want || strings.Contains(c.Message, oldRendering+" is delivered in part") != (want == metav1.ConditionUnknown) {
			t.Errorf("InstallSucceeded is %+v", c)
		}
		if s, err := readStatus(w.config()); err != nil || s.Annotations[api.DeliveredRenderingAnnotation] != record {
			t.Errorf("the status is %+v, the error %v", s, err)
		}
	}
}

// TestDirectRenderingRuns holds that a cluster which got the rendering without a turn does not wait any more.
func TestDirectRenderingRuns(t *testing.T) {
	w := newRenderingFixture(t, withRenderingCurrent(metav1.ConditionFalse, api.ReasonRenderingWaits))
	w.deliverRendering()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if c := w.condition(api.RenderingCurrent); c.Status != metav1.ConditionTrue || c.Reason != api.ReasonRenderingRuns {
		t.Errorf("RenderingCurrent is %+v", c)
	}
	if s, err := readStatus(w.config()); err != nil || s.Annotations[api.DeliveredRenderingAnnotation] != newRendering {
		t.Errorf("the status is %+v, the error %v", s, err)
	}
}

// TestDirectRenderingIsDelivered holds which resources get a new rendering.
func TestDirectRenderingIsDelivered(t *testing.T) {
	for name, tc := range map[string]struct {
		changes []func(*unstructured.Unstructured)
		change  func(*directFixture)
		writes  bool
		report  rollout.Report
	}{
		"the turn":                {changes: []func(*unstructured.Unstructured){withAnnotation(api.RenderingTurnAnnotation, newRendering)}, writes: true},
		"the turn of the past":    {changes: []func(*unstructured.Unstructured){withAnnotation(api.RenderingTurnAnnotation, oldRendering)}, report: rollout.Report{Rendering: newRendering, Waits: true}},
		"an edit":                 {change: func(w *directFixture) { w.edit(t) }, writes: true},
		"a manager without waves": {change: func(w *directFixture) { w.d.Renderings = nil }, writes: true},
		"a pause":                 {changes: []func(*unstructured.Unstructured){withAnnotation(api.PausedAnnotation, "true")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRenderingFixture(t, tc.changes...)
			if tc.change != nil {
				tc.change(w)
			}
			_, _ = w.reconcile() // the cluster of the fixture refuses every write
			wrote := slices.ContainsFunc(w.written(), func(r string) bool { return !strings.HasPrefix(r, "hub: ") })
			if wrote != tc.writes {
				t.Errorf("writes are %q, want writes to the cluster: %t", w.written(), tc.writes)
			}
			if tc.writes {
				return // the pass ends early
			}
			if got := w.report(t); got != tc.report {
				t.Errorf("the report is %+v, want %+v", got, tc.report)
			}
		})
	}
}

// edit changes the spec of the resource.
func (w *directFixture) edit(t *testing.T) {
	t.Helper()
	edited := w.config().DeepCopy()
	edited.Object["spec"] = map[string]any{"version": "1.23"}
	if err := w.configs.Tracker().Update(api.Serving.Resource(), edited, "knative-serving"); err != nil {
		t.Fatal(err)
	}
}

// TestKeptRenderingWaits holds that the last delivered spec waits too while the present spec has a fault.
func TestKeptRenderingWaits(t *testing.T) {
	w := newRenderingFixture(t)
	w.edit(t)
	w.specError = &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec.config is odd"}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); !slices.Equal(got, []string{directPatchStatus}) {
		t.Errorf("writes are %q", got)
	}
	if c := w.condition(api.DeploymentsAvailable); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "activator") {
		t.Errorf("DeploymentsAvailable is %+v", c)
	}
	if got := w.report(t); got != (rollout.Report{}) {
		t.Errorf("the report is %+v", got)
	}
}

// TestUnreachableRendering holds that a cluster which becomes unreachable after its turn takes part in the rollout, and that any other
// unreachable cluster does not.
func TestUnreachableRendering(t *testing.T) {
	for name, tc := range map[string]struct {
		turn   string
		want   metav1.ConditionStatus
		report rollout.Report
	}{
		"after the turn":  {newRendering, metav1.ConditionUnknown, rollout.Report{Rendering: newRendering}},
		"before the turn": {oldRendering, metav1.ConditionFalse, rollout.Report{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRenderingFixture(t, withAnnotation(api.RenderingTurnAnnotation, tc.turn), withRenderingCurrent(metav1.ConditionFalse, api.ReasonRenderingWaits))
			w.clusterError = &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonRemoteClusterStale}}
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if c := w.condition(api.RenderingCurrent); c.Status != tc.want {
				t.Errorf("RenderingCurrent is %+v", c)
			}
			if got := w.report(t); got != tc.report {
				t.Errorf("the report is %+v", got)
			}
		})
	}
}

// TestDetermineRendering holds the condition after a pass.
func TestDetermineRendering(t *testing.T) {
	for name, tc := range map[string]struct {
		before metav1.ConditionStatus // empty without a condition
		state  renderingState
		want   string
	}{
		"a cluster that never waited":              {state: renderingState{rendering: "r", runs: true}},
		"a cluster that waits":                     {state: renderingState{rendering: "r", waiting: "waits"}, want: "False RenderingWaits waits"},
		"a cluster that waits again":               {before: metav1.ConditionTrue, state: renderingState{rendering: "r", waiting: "waits"}, want: "False RenderingWaits waits"},
		"a cluster with the turn":                  {before: metav1.ConditionFalse, state: renderingState{rendering: "r"}, want: "Unknown RenderingDelivering rendering r is being delivered"},
		"a cluster that runs the rendering":        {before: metav1.ConditionUnknown, state: renderingState{rendering: "r", runs: true}, want: "True RenderingRuns the cluster runs rendering r"},
		"a cluster that ran the rendering before":  {before: metav1.ConditionTrue, state: renderingState{rendering: "s"}, want: "True reason message"},
		"a pass that knows nothing of the cluster": {before: metav1.ConditionFalse, want: "False reason message"},
	} {
		t.Run(name, func(t *testing.T) {
			var last []metav1.Condition
			if tc.before != "" {
				last = []metav1.Condition{{Type: api.RenderingCurrent, Status: tc.before, Reason: "reason", Message: "message"}}
			}
			got := ""
			if f := determineRendering(last, tc.state); f != nil {
				got = strings.Join([]string{string(f.Status), f.Reason, f.Message}, " ")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the condition (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunsBundle holds when a cluster runs a rendering.
func TestRunsBundle(t *testing.T) {
	for name, tc := range map[string]struct {
		in   status.Installation
		want bool
	}{
		"everything runs":            {status.Installation{Bundle: &render.Bundle{}}, true},
		"no bundle":                  {status.Installation{}, false},
		"a fault":                    {status.Installation{Bundle: &render.Bundle{}, Fault: &render.Error{}}, false},
		"an object is not there":     {status.Installation{Bundle: &render.Bundle{}, Observation: delivery.Observation{Waiting: "x"}}, false},
		"an object is refused":       {status.Installation{Bundle: &render.Bundle{}, Observation: delivery.Observation{Failed: []delivery.Failure{{}}}}, false},
		"a workload is not seen yet": {status.Installation{Bundle: &render.Bundle{Workloads: []workload.Expected{{Name: "activator"}}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runsBundle(&tc.in); got != tc.want {
				t.Errorf("the cluster runs the bundle: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestDescribeWait holds the message about a cluster that waits.
func TestDescribeWait(t *testing.T) {
	held := &direct.Held{Unrepaired: []string{"ConfigMap a/b is gone"}}
	if got, want := describeWait(held, "r"), "another rendering runs, and rendering r waits for the turn of the cluster; "+
		"the turn restores what the manager cannot restore before: ConfigMap a/b is gone"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}

// TestFailedPass holds that a pass which fails keeps the report of the pass before, and notes since when passes fail.
func TestFailedPass(t *testing.T) {
	name := types.NamespacedName{Namespace: "knative-serving", Name: "self"}
	w := newRenderingFixture(t)
	w.setAnswer(selfAnchor, apierrors.NewInternalError(errors.New("failed calling webhook")))
	for range 2 {
		_, err := w.reconcile()
		report, ok := w.d.Renderings.Report(name)
		if err == nil || ok || !report.FailingSince.Equal(w.d.Clock.Now()) {
			t.Fatalf("the report is %+v, known: %t, the error %v", report, ok, err)
		}
	}
	w = newRenderingFixture(t)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	before := w.report(t)
	w.setAnswer(selfAnchor, apierrors.NewInternalError(errors.New("failed calling webhook")))
	_, _ = w.reconcile()
	if after := w.report(t); after.FailingSince.IsZero() || after.Rendering != before.Rendering || !after.Waits {
		t.Errorf("after a failed pass the report is %+v", after)
	}
	w.d.Renderings.recordReport(name, before)
	if got := w.report(t); !got.FailingSince.IsZero() {
		t.Errorf("after another pass the report is %+v", got)
	}
}

// TestForgedTurn holds that a resource whose cluster was never used takes no part in a rollout, whatever its author annotates.
func TestForgedTurn(t *testing.T) {
	w := newRenderingFixture(t, withAnnotation(api.RenderingTurnAnnotation, newRendering))
	w.clusterError = &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonClusterProfileNotFound}}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if c := w.condition(api.RenderingCurrent); c.Type != "" || w.report(t).Rendering != "" {
		t.Errorf("RenderingCurrent is %+v, the report %+v", c, w.report(t))
	}
}

// TestRecordsOfAnchorsAreShort holds that a cluster cannot fill the status of a resource by its anchor.
func TestRecordsOfAnchorsAreShort(t *testing.T) {
	w := newRenderingFixture(t)
	anchor, _ := w.answers[selfAnchor].(map[string]any)
	u := &unstructured.Unstructured{Object: anchor}
	annotations := u.GetAnnotations()
	annotations[api.VersionAnnotation] = "1.23.0-" + strings.Repeat("a", 20000)
	annotations[api.RunningVersionAnnotation], annotations[api.DeliveredRenderingAnnotation] = annotations[api.VersionAnnotation], strings.Repeat("b", 20000)
	u.SetAnnotations(annotations)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	s, err := readStatus(w.config())
	if err != nil || len(s.Version) == 0 || len(s.Version) > maxRecorded+len("...") {
		t.Errorf("the version has %d bytes, the error is %v", len(s.Version), err)
	}
	if c := w.condition(api.RenderingCurrent); len(c.Message) > 500 || c.Status != metav1.ConditionFalse {
		t.Errorf("RenderingCurrent is %s with a message of %d bytes", c.Status, len(c.Message))
	}
}

// TestFormerTurnEnds holds that the turn for another rendering is removed once the cluster has its rendering, and stays before.
func TestFormerTurnEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		turn      string
		delivered bool
		want      string
	}{
		"the cluster waits":                       {turn: oldRendering, want: oldRendering},
		"the cluster got the rendering otherwise": {turn: oldRendering, delivered: true},
		"the turn for the rendering":              {turn: newRendering, delivered: true, want: newRendering},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRenderingFixture(t, withAnnotation(api.RenderingTurnAnnotation, tc.turn))
			if tc.delivered {
				w.deliverRendering()
			}
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := turnOf(w.config()); got != tc.want {
				t.Errorf("the turn is %q, want %q", got, tc.want)
			}
		})
	}
}
