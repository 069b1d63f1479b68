// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	createVerification = "create manifestworks/knative-serving-verification"
	updateVerification = "update manifestworks/knative-serving-verification"
	deleteVerification = "delete manifestworks/knative-serving-verification"
	patchGate          = "patch manifestworks/knative-serving-gate"
	openGate           = patchGate + " opens: h1"
)

// verifying returns a hub whose configuration requests a verification.
func (h *fakeHub) verifying(keep bool) *fakeHub {
	rendered := h.bundles
	h.bundles = func() (*render.Bundle, error) {
		b, err := rendered()
		b.Verification = &render.Verification{Keep: keep, Namespace: b.Namespace, Image: "hello"}
		return b, err
	}
	return h
}

// gate returns the gate of the hub.
func (h *fakeHub) gate() *workv1.ManifestWork {
	for _, w := range h.works {
		if w.Name == manifestwork.GateName(api.Serving) {
			return w
		}
	}
	return nil
}

// verified records a rendering as verified.
func (h *fakeHub) verified(rendering string) *fakeHub {
	metav1.SetMetaDataAnnotation(&h.gate().ObjectMeta, api.VerifiedRenderingAnnotation, rendering)
	return h
}

// serviceReport is a report of the agent on the Service of a verification.
type serviceReport struct {
	verifies, ready      string
	generation, observed int64
}

// withService adds the work of the verification of a rendering, with a report of the agent.
func (h *fakeHub) withService(t *testing.T, rendering string, report serviceReport) *fakeHub {
	t.Helper()
	b, err := h.bundles()
	if err != nil {
		t.Fatal(err)
	}
	if b.Verification == nil {
		b.Verification = &render.Verification{Namespace: b.Namespace, Image: "hello"}
	}
	w, err := manifestwork.Verification(b, h.addOn, rendering)
	if err != nil {
		t.Fatal(err)
	}
	text := func(name, value string) workv1.FeedbackValue {
		return workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.String, String: &value}}
	}
	number := func(name string, value int64) workv1.FeedbackValue {
		return workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: &value}}
	}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Group: "serving.knative.dev", Kind: "Service", Resource: "services", Namespace: b.Namespace, Name: api.VerificationServiceName},
		StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
			text("Verifies", report.verifies), text("Ready", report.ready), text("Reason", "Why"), text("Message", "the cause"),
			number("Generation", report.generation), number("ObservedGeneration", report.observed),
		}},
	}}
	return h.with(w)
}

// ready is the report on a Service that is Ready for rendering d1.
func ready() serviceReport {
	return serviceReport{verifies: "d1", ready: "True", generation: 2, observed: 2}
}

// TestVerification holds which requests a verification makes, in the order of the verification.
func TestVerification(t *testing.T) {
	const closed, open = "", "h1" // the spec that the gate is open for
	runs := func(gate string) *fakeHub { return delivered(t, 1).gated(t, gate) }
	notReady := serviceReport{verifies: "d1", ready: "False", generation: 2, observed: 2}
	for name, tc := range map[string]struct {
		hub  *fakeHub
		want []string
	}{
		"the payload does not run yet":                {hub: delivered(t, 0).gated(t, "").verifying(false)},
		"the payload runs":                            {hub: runs(closed).verifying(false), want: []string{createVerification}},
		"the payload runs behind an open gate":        {hub: runs(open).verifying(false), want: []string{createVerification}},
		"the agent has not reported on the Service":   {hub: runs(closed).verifying(false).withService(t, "d1", serviceReport{})},
		"the Service is not Ready":                    {hub: runs(closed).verifying(false).withService(t, "d1", notReady)},
		"the Service was Ready for another rendering": {hub: runs(closed).verifying(false).withService(t, "d1", serviceReport{"d0", "True", 2, 2})},
		"the Service was Ready at an earlier generation": {
			hub: runs(closed).verifying(false).withService(t, "d1", serviceReport{"d1", "True", 2, 1}),
		},
		"the Service is Ready": {
			hub: runs(closed).verifying(false).withService(t, "d1", ready()), want: []string{patchGate},
		},
		"the record opens the gate, and the Service goes": {
			hub: runs(closed).verifying(false).withService(t, "d1", ready()).verified("d1"), want: []string{deleteVerification, openGate},
		},
		"the record opens the gate, and a kept Service stays": {
			hub: runs(closed).verifying(true).withService(t, "d1", ready()).verified("d1"), want: []string{openGate},
		},
		"nothing happens at rest":                     {hub: runs(open).verifying(false).verified("d1")},
		"nothing happens at rest with a kept Service": {hub: runs(open).verifying(true).withService(t, "d1", ready()).verified("d1")},
		"a kept Service that a user deleted stays away until the next verification": {
			hub: runs(open).verifying(true).verified("d1"),
		},
		"a record of another rendering does not count": {
			hub: runs(open).verifying(false).verified("d0"), want: []string{patchGate},
		},
		"the Service of another rendering is changed": {
			hub: runs(closed).verifying(true).withService(t, "d0", serviceReport{"d0", "True", 2, 2}), want: []string{updateVerification},
		},
		"the Service of a former add-on is taken over": {
			hub: runs(closed).verifying(false).withService(t, "d1", ready()).changed(func(h *fakeHub) {
				h.works[len(h.works)-1].OwnerReferences = nil
			}),
			want: []string{updateVerification},
		},
		"the next Service follows the deletion of the last one": {
			hub: runs(closed).verifying(false).withService(t, "d1", ready()).changed(func(h *fakeHub) {
				h.works[len(h.works)-1].DeletionTimestamp = new(metav1.Unix(1, 0))
			}),
		},
		"a Service of another rendering that is being deleted": {
			hub: runs(closed).verifying(false).withService(t, "d0", ready()).changed(func(h *fakeHub) {
				h.works[len(h.works)-1].DeletionTimestamp = new(metav1.Unix(1, 0))
			}),
		},
		"a Service goes when the request goes": {
			hub: runs(closed).withService(t, "d1", serviceReport{}), want: []string{deleteVerification, openGate},
		},
		"no verification stays beside a probe": {
			hub: newHub().with(probeWork(t, "h2", map[string]string{"AppliedBy": "abc"})).withService(t, "d1", ready()), want: []string{deleteVerification},
		},
		"a pause keeps everything": {hub: runs(closed).verifying(false).withService(t, "d1", ready()).isPaused()},
		"a return to a former configuration closes the gate without the record": {
			hub:  delivered(t, 1).gated(t, "h0").wantsFormer().verifying(false).verified("d0"),
			want: []string{patchGate + " closes"},
		},
		"a cluster that is to have another configuration does not verify the rendering that leaves": {
			hub: renderedAnew(t, closed).verifying(false).wants("h2"), want: []string{updateFoundation},
		},
		"a cluster that had its turn does not verify the rendering that leaves": {
			hub: renderedAnew(t, closed).verifying(false).changed(func(h *fakeHub) {
				h.foundation().Annotations[api.RenderingTurnAnnotation] = "d2"
			}),
			want: []string{updateFoundation},
		},
		"a cluster that waits for its turn verifies the rendering that runs": {
			hub: renderedAnew(t, closed).verifying(false), want: []string{createVerification},
		},
		"a cluster that waits for its turn keeps the record of the rendering that runs": {
			hub: renderedAnew(t, closed).verifying(false).verified("d1"), want: []string{openGate},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range tc.hub.actions {
				if a != patchStatus {
					got = append(got, a)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVerified holds what condition Verified says, with a bounded text of the cluster.
func TestVerified(t *testing.T) {
	runs := func() *fakeHub { return delivered(t, 1).gated(t, "") }
	requested := metav1.Condition{Type: api.Verified, Status: metav1.ConditionFalse, Reason: api.ReasonVerifying}
	for name, tc := range map[string]struct {
		hub    *fakeHub
		want   metav1.ConditionStatus
		reason string
		text   string
	}{
		"no verification was ever requested": {hub: runs()},
		"the request is gone": {
			hub:  runs().changed(func(h *fakeHub) { h.addOn.Status.Conditions = append(h.addOn.Status.Conditions, requested) }),
			want: metav1.ConditionTrue, reason: api.ReasonVerificationNotRequested,
		},
		"the payload does not run": {hub: delivered(t, 0).gated(t, "").verifying(false), want: metav1.ConditionUnknown, reason: api.ReasonDelivering},
		"the payload runs":         {hub: runs().verifying(false), want: metav1.ConditionFalse, reason: api.ReasonVerifying, text: "the cluster runs Knative"},
		"the Service is not Ready": {
			hub:  runs().verifying(false).withService(t, "d1", serviceReport{"d1", "False", 2, 2}),
			want: metav1.ConditionFalse, reason: api.ReasonVerificationFailed, text: "Ready is False: Why: the cause",
		},
		"the Service does not know yet": {
			hub:  runs().verifying(false).withService(t, "d1", serviceReport{"d1", "Unknown", 2, 2}),
			want: metav1.ConditionFalse, reason: api.ReasonVerifying, text: "Ready is Unknown: Why: the cause",
		},
		"the cluster refuses the Service": {
			hub: runs().verifying(false).withService(t, "d1", serviceReport{}).changed(func(h *fakeHub) {
				h.works[3].Status.ResourceStatus.Manifests[0].Conditions = []metav1.Condition{
					{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: "denied\nby policy"},
				}
			}),
			want: metav1.ConditionFalse, reason: api.ReasonVerificationFailed, text: "denied by policy",
		},
		"the rendering is verified": {
			hub: runs().verifying(false).verified("d1"), want: metav1.ConditionTrue, reason: api.ReasonVerificationSucceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			c := apimeta.FindStatusCondition(tc.hub.stored.Status.Conditions, api.Verified)
			switch {
			case tc.want == "" && c != nil:
				t.Errorf("condition Verified is %+v, want none", c)
			case tc.want != "" && (c == nil || c.Status != tc.want || c.Reason != tc.reason || !strings.Contains(c.Message, tc.text)):
				t.Errorf("condition Verified is %+v, want %s, %s, %q", c, tc.want, tc.reason, tc.text)
			}
		})
	}
}

// TestVerificationHoldsTheRendering holds that a rendering runs only when its verification has succeeded.
func TestVerificationHoldsTheRendering(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded string
		want     metav1.ConditionStatus
	}{
		"before the verification": {want: metav1.ConditionUnknown},
		"after the verification":  {recorded: "d1", want: metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			h := delivered(t, 1).gated(t, "h1").verifying(false)
			h.addOn.Status.Conditions = append(h.addOn.Status.Conditions, metav1.Condition{Type: api.RenderingCurrent, Status: metav1.ConditionUnknown})
			if tc.recorded != "" {
				h.verified(tc.recorded)
			}
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if c := apimeta.FindStatusCondition(h.stored.Status.Conditions, api.RenderingCurrent); c == nil || c.Status != tc.want {
				t.Errorf("condition RenderingCurrent is %+v, want %s", c, tc.want)
			}
		})
	}
}

// TestVerificationLeavesFirst holds that the Service goes before the payload in a removal, and that no work of a verification outlives the
// add-on.
func TestVerificationLeavesFirst(t *testing.T) {
	const status = patchStatus
	stopping := payload()
	stopping.Finalizers = []string{workv1.ManifestWorkFinalizer}
	stopping.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"knative-serving","name":"activator"},"spec":{"replicas":1}}`),
	}}}
	leaving := func(since time.Duration) func(*fakeHub) {
		return func(h *fakeHub) {
			h.works[len(h.works)-1].DeletionTimestamp = new(metav1.NewTime(passTime.Add(-since)))
		}
	}
	for name, tc := range map[string]struct {
		hub  *fakeHub
		want []string
		// isStart reports that further requests may follow.
		isStart bool
	}{
		"a removal deletes the verification and nothing else": {
			hub: delivered(t, 1).gated(t, "").withService(t, "d1", ready()).deleting().allowed(), want: []string{status, deleteVerification},
		},
		"a removal waits until the verification is gone": {
			hub: delivered(t, 1).gated(t, "").withService(t, "d1", ready()).changed(leaving(time.Minute)).deleting().allowed(), want: []string{status},
		},
		"a Service whose deletion a dead webhook refuses does not keep the payload from its stop": {
			hub:  newHub().gated(t, "").with(stopping).withService(t, "d1", ready()).changed(leaving(delivery.LongestStop)).deleting().allowed(),
			want: []string{status, updatePayload},
		},
		"the payload is not deleted before the Service": {
			hub: delivered(t, 1).gated(t, "").withService(t, "d1", ready()).changed(leaving(delivery.LongestStop)).deleting().allowed(), want: []string{status},
		},
		"the add-on is not released before the Service": {
			hub: newHub().withService(t, "d1", ready()).changed(leaving(delivery.LongestStop)).deleting().allowed(), want: []string{status},
		},
		"an orphaned installation has no verification": {
			hub:  newHub().gated(t, "").withService(t, "d1", ready()).deleting().annotated(api.ForceOrphanAnnotation, "true"),
			want: []string{"delete manifestworks/knative-serving-gate", deleteVerification}, isStart: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.hub.addOn.Finalizers = []string{api.FoundationFinalizer}
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			got := tc.hub.actions
			if tc.isStart && len(got) > len(tc.want) {
				got = got[:len(tc.want)]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
