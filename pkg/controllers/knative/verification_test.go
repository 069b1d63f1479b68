// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// TestVerificationOfManagedCluster holds that a resource with a work agent is Ready when the gate records the verification of the present
// rendering.
func TestVerificationOfManagedCluster(t *testing.T) {
	h := newHub(t, serving("self", 100))
	h.settle("self")
	h.delivered()
	h.bundle.Verification = &render.Verification{Namespace: h.bundle.Namespace}
	for _, step := range []struct{ record, reason string }{
		{"", api.ReasonVerifying}, {"another", api.ReasonVerifying}, {h.bundle.RenderingName(), api.ReasonVerificationSucceeded},
	} {
		gate := manifestwork.Gate(h.bundle, h.addOn())
		metav1.SetMetaDataAnnotation(&gate.ObjectMeta, api.VerifiedRenderingAnnotation, step.record)
		h.works = append(h.works[:2], gate)
		h.settle("self")
		got, ready := h.findCondition(api.Verified), h.findCondition(api.Ready)
		if got == nil || got.Reason != step.reason || (ready.Status == metav1.ConditionTrue) != (step.reason == api.ReasonVerificationSucceeded) {
			t.Errorf("with record %q Verified is %+v and Ready %+v, want reason %s", step.record, got, ready, step.reason)
		}
	}
}

// TestVerificationHoldsTheRendering holds that a rendering without a work agent runs when its verification has succeeded.
func TestVerificationHoldsTheRendering(t *testing.T) {
	for in, want := range map[*status.Installation]bool{
		{}: true, {Verification: &delivery.Verification{Runs: true}}: false, {Verification: &delivery.Verification{Verified: true}}: true,
	} {
		if got := isVerified(in); got != want {
			t.Errorf("%+v is verified: %t", in.Verification, got)
		}
	}
}
