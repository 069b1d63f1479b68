// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// renderedAnew returns a cluster that has a bundle, and whose configuration this manager renders differently, with the CRDs.
// gate is the hash of the spec that the gate is open for; empty for a closed gate.
func renderedAnew(t *testing.T, gate string) *fakeHub {
	t.Helper()
	h := delivered(t, 1).gated(t, gate)
	h.bundles = func() (*render.Bundle, error) {
		b, err := rolling()
		b.Digest, b.FoundationDigest = "d2", "f2"
		return b, err
	}
	return h
}

func (h *fakeHub) foundation() *workv1.ManifestWork {
	return h.works[slices.IndexFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == manifestwork.FoundationName(api.Serving) })]
}

// TestRenderingWaits holds that a new rendering changes no work before the turn of the cluster.
func TestRenderingWaits(t *testing.T) {
	h := renderedAnew(t, "h1")
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{patchStatus}, h.actions); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	c := apimeta.FindStatusCondition(h.stored.Status.Conditions, api.RenderingCurrent)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != api.ReasonRenderingWaits || !strings.Contains(c.Message, "d1") || !strings.Contains(c.Message, "d2") {
		t.Errorf("condition RenderingCurrent is %+v", c)
	}
}

// TestGateOpensDuringTheWait holds that OCM completes the configuration that the cluster runs.
func TestGateOpensDuringTheWait(t *testing.T) {
	h := renderedAnew(t, "")
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if want := "patch manifestworks/" + manifestwork.GateName(api.Serving); !slices.ContainsFunc(h.actions, func(a string) bool { return strings.HasPrefix(a, want) }) {
		t.Errorf("the gate stays closed: requests are %v", h.actions)
	}
	if slices.Contains(h.actions, updateFoundation) {
		t.Errorf("the foundation is written: requests are %v", h.actions)
	}
}

// TestRenderingIsDelivered holds that the turn delivers the foundation, and what the condition says until the cluster runs the rendering.
func TestRenderingIsDelivered(t *testing.T) {
	h := renderedAnew(t, "h1")
	h.foundation().Annotations[api.RenderingTurnAnnotation] = "d2"
	apimeta.SetStatusCondition(&h.addOn.Status.Conditions, metav1.Condition{
		Type: api.RenderingCurrent, Status: metav1.ConditionFalse, Reason: api.ReasonRenderingWaits, Message: "waits",
	})
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(h.actions, updateFoundation) {
		t.Errorf("the foundation is not written: requests are %v", h.actions)
	}
	if c := apimeta.FindStatusCondition(h.stored.Status.Conditions, api.RenderingCurrent); c == nil || c.Status != metav1.ConditionUnknown {
		t.Errorf("condition RenderingCurrent is %+v before the cluster runs the rendering", c)
	}

	done := delivered(t, 1).gated(t, "h1")
	done.addOn.Status.Conditions = append(done.addOn.Status.Conditions, metav1.Condition{Type: api.RenderingCurrent, Status: metav1.ConditionUnknown})
	if err := done.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if c := apimeta.FindStatusCondition(done.stored.Status.Conditions, api.RenderingCurrent); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition RenderingCurrent is %+v when the cluster runs the rendering", c)
	}
}

// TestTurnBeforeReport holds that condition RenderingCurrent follows the delivery also when the turn came before the manager reported that
// the cluster waits.
func TestTurnBeforeReport(t *testing.T) {
	for name, conditions := range map[string][]metav1.Condition{
		"no rendering before":           nil,
		"the cluster ran the rendering": {{Type: api.RenderingCurrent, Status: metav1.ConditionTrue, Reason: api.ReasonRenderingRuns, Message: rollout.RunningMessage("d1")}},
	} {
		t.Run(name, func(t *testing.T) {
			h := renderedAnew(t, "h1")
			h.foundation().Annotations[api.RenderingTurnAnnotation] = "d2"
			h.addOn.Status.Conditions = append(h.addOn.Status.Conditions, conditions...)
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if c := apimeta.FindStatusCondition(h.stored.Status.Conditions, api.RenderingCurrent); c == nil || c.Status != metav1.ConditionUnknown {
				t.Errorf("condition RenderingCurrent is %+v before the cluster runs the rendering", c)
			}
		})
	}
}

// TestFormerTurnEnds holds that the turn for another rendering is removed once the cluster has its rendering, and that no other turn is
// written.
func TestFormerTurnEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		hub   *fakeHub
		turn  string
		write bool
	}{
		"the turn for the rendering":              {hub: delivered(t, 1).gated(t, "h1"), turn: "d1"},
		"the cluster got the rendering otherwise": {hub: delivered(t, 1).gated(t, "h1"), turn: "d0", write: true},
		"the cluster waits":                       {hub: renderedAnew(t, "h1"), turn: "d0"},
	} {
		t.Run(name, func(t *testing.T) {
			h := tc.hub
			h.foundation().Annotations[api.RenderingTurnAnnotation] = tc.turn
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if write := slices.Contains(h.actions, updateFoundation); write != tc.write {
				t.Errorf("requests are %v", h.actions)
			}
			for _, w := range h.updated {
				if turn := w.Annotations[api.RenderingTurnAnnotation]; turn != "" {
					t.Errorf("%s has turn %q", w.Name, turn)
				}
			}
		})
	}
}

// TestNewInputs holds that other values of a cluster, such as another install namespace, are delivered at once: the foundation of these values
// makes the payload of the former values no other rendering, which would wait for the turn of the cluster.
func TestNewInputs(t *testing.T) {
	h := renderedAnew(t, "h1")
	bundles := h.bundles
	h.bundles = func() (*render.Bundle, error) {
		b, err := bundles()
		b.Inputs = "new"
		return b, err
	}
	h.foundation().Annotations[api.RenderingInputsAnnotation] = "old"
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(h.actions, updateFoundation) {
		t.Fatalf("the foundation is not written: %q", h.actions)
	}
	h.works[slices.Index(h.works, h.foundation())] = h.storedWork(t, manifestwork.FoundationName(api.Serving))
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if c := apimeta.FindStatusCondition(h.stored.Status.Conditions, api.RenderingCurrent); c != nil {
		t.Errorf("the payload waits for its turn: %+v", c)
	}
	b, err := h.bundles()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == payload().Name })
	h.works[i].Spec.Workload.Manifests = manifestsOf(t, b)
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if got := h.storedWork(t, manifestwork.FoundationName(api.Serving)).Annotations[api.RenderingInputsAnnotation]; got != "new" {
		t.Errorf("the foundation records inputs %q", got)
	}
}
