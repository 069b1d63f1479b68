// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const servicePath = "services/knative-serving/knative-verification"

// verified requests a verification of a rendering, and adds the CRD of the Service.
func verified(t *testing.T, rendering string, keep bool) func(*render.Bundle) {
	t.Helper()
	return func(b *render.Bundle) {
		b.Foundation = append(b.Foundation, rendered(t, inCRDs, "CustomResourceDefinition services.serving.knative.dev", map[string]any{"spec": map[string]any{
			"group": "serving.knative.dev", "names": map[string]any{"kind": "Service", "plural": "services"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		}}))
		b.Digest, b.Inputs = rendering, "i1"
		b.Verification = &render.Verification{Keep: keep, Namespace: b.Namespace, Image: "hello"}
	}
}

// runWorkloads reports that all workloads run, and that all Jobs have completed.
func (s *clusterFixture) runWorkloads() {
	s.edit(activatorPath, func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}
	})
	s.edit("jobs/knative-serving/migrate", completed)
}

// reportService sets the status of the Service as Knative does.
func (s *clusterFixture) reportService(ready, reason string) {
	s.edit(servicePath, func(u *unstructured.Unstructured) {
		u.SetGeneration(3)
		u.Object["status"] = map[string]any{"observedGeneration": int64(3), "conditions": []any{
			map[string]any{"type": "ConfigurationsReady", "status": "True"},
			map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": "a message"},
		}}
	})
}

// verifiedRendering returns the record of the anchor.
func (s *clusterFixture) verifiedRendering() string {
	return s.find(anchorPath).GetAnnotations()[api.VerifiedRenderingAnnotation]
}

// expectReason holds the reason of condition Verified after a pass.
func expectReason(t *testing.T, out Outcome, want string) {
	t.Helper()
	if out.Verification == nil {
		t.Fatalf("no verification, want reason %s", want)
	}
	if _, reason, text := out.Verification.Describe(); reason != want {
		t.Errorf("the reason is %s (%s), want %s", reason, text, want)
	}
}

// TestVerification holds the steps of a verification, and that a finished verification leaves no object and makes no request, also after
// a restart of the manager.
func TestVerification(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, false))
	expectReason(t, s.settle(t, b), api.ReasonDelivering)
	if s.find(servicePath) != nil {
		t.Fatal("the Service is there before the workloads run")
	}
	s.runWorkloads()
	expectReason(t, s.settle(t, b), api.ReasonVerifying)
	if o := s.find(servicePath); o == nil || len(o.GetOwnerReferences()) != 1 {
		t.Fatalf("the Service is %v, want one that the anchor owns", o)
	}
	s.reportService("False", "RevisionFailed")
	expectReason(t, s.settle(t, b), api.ReasonVerificationFailed)
	if got := s.verifiedRendering(); got != "" {
		t.Errorf("the anchor records %q before the Service is Ready", got)
	}
	s.restart()
	s.reportService("True", "")
	expectReason(t, s.settle(t, b), api.ReasonVerificationSucceeded)
	if got := s.verifiedRendering(); got != firstRendering || s.find(servicePath) != nil {
		t.Errorf("the anchor records %q, and the Service is %v", got, s.find(servicePath))
	}
	s.restart()
	s.asked()
	out := s.pass(t, b)
	expectReason(t, out, api.ReasonVerificationSucceeded)
	if asked := s.asked(); len(asked) > 0 || out.Retry > 0 {
		t.Errorf("a verified installation at rest asks for %q, and for a pass in %s", asked, out.Retry)
	}
}

// TestVerificationAsksForAPass holds that a pass asks for the next one when the next step needs no event of the cluster.
func TestVerificationAsksForAPass(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.runWorkloads()
	s.settle(t, b)
	requested := bundleOf(t, verified(t, firstRendering, false))
	// The record of the rendering is written, and the Service follows in the same pass or in the next. A pass that waits for an object is
	// followed by the event of the object.
	for range 5 {
		if out := s.pass(t, requested); s.find(servicePath) == nil && out.Retry == 0 && out.Observation.Waiting == "" {
			t.Fatal("no Service, and no further pass")
		}
	}
	if s.find(servicePath) == nil {
		t.Error("no Service")
	}
}

// TestNextVerification holds that another rendering is verified anew: an old Service that is Ready does not count.
func TestNextVerification(t *testing.T) {
	for name, tc := range map[string]struct {
		keep bool
		want bool // the Service exists while the next rendering starts
	}{
		"a Service that is removed": {},
		"a Service that is kept":    {keep: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, tc.keep))
			s.settle(t, b)
			s.runWorkloads()
			s.settle(t, b)
			s.reportService("True", "")
			s.settle(t, b)
			if kept := s.find(servicePath) != nil; kept != tc.keep {
				t.Errorf("the Service exists after the verification: %t", kept)
			}
			next := bundleOf(t, verified(t, otherRendering, tc.keep), func(b *render.Bundle) {
				b.Payload[4] = rendered(t, inDeployments, "Deployment knative-serving/activator", map[string]any{"spec": map[string]any{"replicas": int64(2)}})
			})
			expectReason(t, s.settle(t, next), api.ReasonDelivering)
			if got := s.verifiedRendering(); got != "" {
				t.Errorf("the anchor records %q during the next delivery", got)
			}
			if exists := s.find(servicePath) != nil; exists != tc.want {
				t.Errorf("the Service exists during the next delivery: %t", exists)
			}
			s.edit(activatorPath, func(u *unstructured.Unstructured) {
				u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(2), "updatedReplicas": int64(2), "availableReplicas": int64(2)}
			})
			expectReason(t, s.settle(t, next), api.ReasonVerifying)
			annotations, _, _ := unstructured.NestedStringMap(s.find(servicePath).Object, "spec", "template", "metadata", "annotations")
			if got := annotations[api.VerifiesAnnotation]; got != otherRendering {
				t.Errorf("the Service verifies %q", got)
			}
			s.reportService("True", "")
			expectReason(t, s.settle(t, next), api.ReasonVerificationSucceeded)
		})
	}
}

// TestRefusedVerification holds that the cluster's refusal of the Service is a failed verification, and no failed installation.
func TestRefusedVerification(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, false))
	s.settle(t, b)
	s.runWorkloads()
	s.disturb(func(request string) error {
		if strings.HasPrefix(request, "apply services/") {
			return apierrors.NewForbidden(render.VerificationResource().GroupResource(), "knative-verification", errors.New("quota"))
		}
		return nil
	})
	out := s.pass(t, b)
	for range 3 {
		out = s.pass(t, b)
	}
	expectReason(t, out, api.ReasonVerificationFailed)
	if len(out.Observation.Failed) > 0 || out.Observation.Waiting != "" {
		t.Errorf("the installation is %+v", out.Observation)
	}
}

// TestPausedVerification holds that a pause starts no verification.
func TestPausedVerification(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, false))
	s.settle(t, b)
	s.runWorkloads()
	s.catchUp(t)
	s.asked()
	out, err := s.Sync(t.Context(), b, SyncOptions{Paused: true})
	if err != nil || !out.Pending {
		t.Errorf("the paused pass has changes to apply: %t (%v)", out.Pending, err)
	}
	expectReason(t, out, api.ReasonVerifying)
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("a paused pass asks for %q", asked)
	}
	s.settle(t, b)
	if out, err = s.Sync(t.Context(), b, SyncOptions{Paused: true}); err != nil || out.Pending {
		t.Errorf("a pass that is paused during the verification has changes to apply: %t (%v)", out.Pending, err)
	}
}

// TestVerificationWithoutRequest holds that a Service goes when the request for the verification goes.
func TestVerificationWithoutRequest(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, true))
	s.settle(t, b)
	s.runWorkloads()
	s.settle(t, b)
	b.Verification = nil
	if out := s.settle(t, b); out.Verification != nil || s.find(servicePath) != nil {
		t.Errorf("the verification is %+v, and the Service is %v", out.Verification, s.find(servicePath))
	}
}

// checkRemovalWaits holds that a removal waits for the Service.
func (s *clusterFixture) checkRemovalWaits(t *testing.T) {
	t.Helper()
	waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed})
	if err != nil || !strings.Contains(waiting, "knative-verification") {
		t.Fatalf("the removal waits for %q (%v)", waiting, err)
	}
}

// checkStopped holds that the activator is gone or has no replicas.
func (s *clusterFixture) checkStopped(t *testing.T) {
	t.Helper()
	scaled := s.find(activatorPath)
	if scaled == nil {
		return
	}
	if replicas, _, _ := unstructured.NestedFieldNoCopy(scaled.Object, "spec", "replicas"); fmt.Sprint(replicas) != "0" {
		t.Errorf("the workloads have %v replicas after the end of the Service", replicas)
	}
}

// TestVerificationLeavesFirst holds that a removal deletes the Service before the workloads stop, waits for the resources of the Service,
// and continues where Knative's controllers do not run.
func TestVerificationLeavesFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		end   func(*clusterFixture)
		again bool
	}{
		"Knative's controllers run":        {end: func(s *clusterFixture) { s.lose(servicePath) }},
		"Knative's controllers do not run": {end: func(s *clusterFixture) { s.clock.SetTime(s.clock.Now().Add(delivery.LongestStop)) }, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, false))
			s.settle(t, b)
			s.runWorkloads()
			s.settle(t, b)
			s.edit(servicePath, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"foregroundDeletion"}) })
			s.catchUp(t)
			s.asked()
			for range 2 {
				s.checkRemovalWaits(t)
			}
			if asked := s.asked(); !slices.Equal(asked, []string{"delete " + servicePath}) {
				t.Errorf("requests before the end of the Service: %q", asked)
			}
			tc.end(s)
			if _, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed}); err != nil {
				t.Fatal(err)
			}
			s.checkStopped(t)
			if first := *s.deletes[0].PropagationPolicy; first != metav1.DeletePropagationForeground {
				t.Errorf("the Service is deleted with policy %s", first)
			}
			if again := slices.Contains(s.asked(), "delete "+servicePath); again != tc.again {
				t.Errorf("the Service is deleted once more, without its resources: %t", again)
			}
		})
	}
}

// TestVerificationLeavesBeforeUsers holds that the objects that Knative creates for the Service of a verification, which lack our label, do not
// hold a removal as resources of users.
func TestVerificationLeavesBeforeUsers(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, true))
	s.settle(t, b)
	s.runWorkloads()
	s.settle(t, b)
	s.add(b.Payload[len(b.Payload)-1].Resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "caching.knative.dev/v1", "kind": "Image", "metadata": map[string]any{"namespace": installed, "name": "knative-verification-00001"},
	}})
	s.asked()
	s.catchUp(t)
	waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true})
	if asked := s.asked(); err != nil || !slices.Contains(asked, "delete "+servicePath) {
		t.Errorf("the removal waits for %q (%v) after %q", waiting, err, asked)
	}
	s.lose("images/knative-serving/knative-verification-00001")
	s.catchUp(t)
	waiting, err = s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true})
	if err != nil || !strings.HasPrefix(waiting, "waiting for the pods") {
		t.Errorf("without Knative's objects the removal waits for %q (%v)", waiting, err)
	}
}

// TestGrantForVerification holds that a verification asks only for permissions that it is given, and that an installation without a
// verification has no such permission.
func TestGrantForVerification(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t, verified(t, firstRendering, false))
	p := permissionsFor([]Need{{Anchor: strings.TrimPrefix(anchorPath, "configmaps/knative-serving/"), Bundles: []*render.Bundle{b}}})
	var refused []string
	s.disturb(func(request string) error {
		if strings.Contains(request, " services/") && !p.allows(request) {
			refused = append(refused, request)
		}
		return nil
	})
	s.settle(t, b)
	s.runWorkloads()
	s.settle(t, b)
	s.reportService("True", "")
	s.settle(t, b)
	if diff := cmp.Diff([]string(nil), refused); diff != "" {
		t.Errorf("requests without a permission (-want +got):\n%s", diff)
	}
	for at := range permissionsFor([]Need{{Anchor: "a", Bundles: []*render.Bundle{bundleOf(t)}}}) {
		if at.GroupResource == render.VerificationResource().GroupResource() && at.verb != "list" {
			t.Errorf("permission without a verification: %+v", at)
		}
	}
}
