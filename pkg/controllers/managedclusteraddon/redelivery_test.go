// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// bundlesByHash renders the specs of the granted configuration by hash.
type bundlesByHash map[string]bundlesFunc

func (b bundlesByHash) Bundle(_ context.Context, a *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	desired := revision.Desired(a)
	if desired == nil {
		return nil, &render.Error{Reason: api.ReasonConfigNotGranted, Message: "the hub did not give the configuration"}
	}
	return b[desired.SpecHash]()
}

// faulty is a configuration that yields no bundle for the reason.
func faulty(reason render.Reason) bundlesFunc {
	return func() (*render.Bundle, error) { return nil, &render.Error{Reason: reason, Message: "no"} }
}

// refusedEdit is a cluster that ran spec h1 when an edit to spec h2 was refused. The hub has lost the payload.
func refusedEdit(t *testing.T) *fakeHub {
	t.Helper()
	h := delivered(t, 1).gated(t, "h1").wants("h2")
	h.bundlesOf = bundlesByHash{"h1": rolling, "h2": faulty(api.ReasonUnknownVersion)}
	h.works = slices.DeleteFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == payload().Name })
	return h
}

// TestRedelivery holds when the controller writes the payload of the delivered configuration, while the wanted configuration is refused.
func TestRedelivery(t *testing.T) {
	const createPayload = "create manifestworks/addon-knative-serving-deploy-0"
	for name, tc := range map[string]struct {
		reason string
		change func(h *fakeHub)
		want   []string
		// again means that another pass follows without an event.
		again bool
	}{
		"the payload is gone": {reason: "The cluster keeps the configuration.", want: []string{patchStatus, createPayload}},
		"the workloads fail": {
			reason: "A held gate records the configuration.", want: []string{patchStatus, createPayload},
			change: func(h *fakeHub) { manifestwork.HoldGate(h.works[1]) },
		},
		"the payload is leaving": {
			reason: "The agent deletes the objects first.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				leaving := withFurtherObject(incompletePayload(t))
				leaving.Finalizers, leaving.DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, new(metav1.Now())
				h.with(leaving)
			},
		},
		"the payload is complete": {
			reason: "The agent repairs the payload.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				h.with(deliveredPayload(t))
				h.works[0].Annotations[api.DigestAnnotation] = "f0"
			},
		},
		"the payload is complete, and webhooks ignore failures": {
			reason: "The webhooks run, and refuse again.", want: []string{patchStatus, updateFoundation},
			change: func(h *fakeHub) {
				h.with(deliveredPayload(t))
				h.works[0].Annotations[api.UnblockedAnnotation] = "true"
			},
		},
		"the foundation is leaving": {
			reason: "The next installation follows a probe.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				h.works[0].Finalizers, h.works[0].DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, new(metav1.Now())
			},
		},
		"the gate is leaving": {
			reason: "OCM would wait for no gate.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				h.works[1].Finalizers, h.works[1].DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, new(metav1.Now())
			},
		},
		"an incomplete payload of another rendering": {
			reason: "The turn of the cluster has not come.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				h.with(incompletePayload(t))
				h.bundlesOf["h1"] = func() (*render.Bundle, error) {
					b, err := rolling()
					b.Digest, b.FoundationDigest = "d2", "f2"
					return b, err
				}
			},
		},
		"an incomplete payload of a configuration that did not run yet": {
			reason: "The cluster keeps the delivered configuration.", want: []string{patchStatus, updatePayload},
			change: func(h *fakeHub) {
				p := withFurtherObject(incompletePayload(t))
				p.Annotations[workv1.ManifestConfigSpecHashAnnotationKey] = manifestwork.ConfigsText(configs("h0"))
				h.bundlesOf["h0"] = rolling
				h.with(p)
			},
		},
		"an incomplete payload without a configuration": {
			reason: "Nothing names the delivered configuration.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				p := withFurtherObject(incompletePayload(t))
				p.Annotations = nil
				h.with(p)
			},
		},
		"an incomplete payload with a further object": {
			reason: "The payload is what addon-framework would write.", want: []string{patchStatus, updatePayload},
			change: func(h *fakeHub) { h.with(withFurtherObject(incompletePayload(t))) },
		},
		"no gate": {
			reason: "Nothing names the delivered configuration.", want: []string{patchStatus},
			change: func(h *fakeHub) { h.works = h.works[:1] },
		},
		"the gate names no configuration": {
			reason: "Nothing names the delivered configuration.", want: []string{patchStatus},
			change: func(h *fakeHub) { h.works[1].Annotations = nil },
		},
		"the gate names a configuration of another team": {
			reason: "The agent of the cluster may write the gate.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				h.works[1].Annotations[api.RunningConfigsAnnotation] = `{"knativeservings.operator.knative.dev/team-b/private":"h1"}`
			},
		},
		"the gate names no name": {
			reason: "The agent of the cluster may write the gate.", want: []string{patchStatus},
			change: func(h *fakeHub) { h.works[1].Annotations[api.RunningConfigsAnnotation] = `{"x":"h1"}` },
		},
		"the cluster never ran a payload": {
			reason: "No installation is there to keep.", want: []string{patchStatus},
			change: func(h *fakeHub) { delete(h.works[0].Annotations, api.RunningVersionAnnotation) },
		},
		"no foundation": {
			reason: "The next installation follows a probe.", want: []string{patchStatus},
			change: func(h *fakeHub) { h.works = h.works[1:] },
		},
		"the delivered configuration is refused too": {
			reason: "The archive lacks the version.", want: []string{patchStatus},
			change: func(h *fakeHub) { h.bundlesOf["h1"] = faulty(api.ReasonUnknownVersion) },
		},
		"the delivered configuration is being rendered": {
			reason: "The next pass writes the payload.", want: []string{patchStatus}, again: true,
			change: func(h *fakeHub) { h.bundlesOf["h1"] = faulty(api.FaultRenderPending) },
		},
		"the manifests of the configuration cannot be downloaded": {
			reason: "No event tells that the server answers again.", want: []string{patchStatus, createPayload}, again: true,
			change: func(h *fakeHub) { h.bundlesOf["h2"] = faulty(api.ReasonRemoteManifestUnavailable) },
		},
		"OCM has not resolved the configuration": {
			reason: "The configuration follows in a moment.", want: []string{patchStatus},
			change: func(h *fakeHub) { h.bundlesOf["h2"] = faulty(api.FaultConfigPending) },
		},
		"the foundation is of another version": {
			reason: "The CRDs do not fit.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				h.works[0].Annotations[api.DigestAnnotation], h.works[0].Annotations[api.VersionAnnotation] = "f0", "1.24.0"
			},
		},
		"the foundation is of another rendering": {
			reason: "CRDs come first.", want: []string{patchStatus, updateFoundation},
			change: func(h *fakeHub) { h.works[0].Annotations[api.DigestAnnotation] = "f0" },
		},
		"paused":                     {reason: "Nothing is written.", want: []string{patchStatus}, change: func(h *fakeHub) { h.isPaused() }},
		"the cluster leaves the hub": {reason: "Nothing new is delivered.", want: []string{patchStatus}, change: func(h *fakeHub) { h.detaching() }},
		"consent revoked": {
			reason: "Nothing new is delivered.", want: []string{patchStatus},
			change: func(h *fakeHub) {
				h.target = targetOf{Reason: api.ReasonReferenceNotPermitted, Message: "no set is bound"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := refusedEdit(t)
			if tc.change != nil {
				tc.change(h)
			}
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, h.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if again := h.result.RequeueAfter > 0; again != tc.again {
				t.Errorf("%s Another pass follows: %t", tc.reason, again)
			}
		})
	}
}

// deliveredPayload is the payload of a cluster that runs spec h1.
func deliveredPayload(t *testing.T) *workv1.ManifestWork {
	t.Helper()
	for _, w := range delivered(t, 1).works {
		if w.Name == payload().Name {
			return w
		}
	}
	t.Fatal("no payload is delivered")
	return nil
}

// incompletePayload is a payload of which the agent has not applied every object.
func incompletePayload(t *testing.T) *workv1.ManifestWork {
	t.Helper()
	p := deliveredPayload(t)
	p.Status.Conditions[0].Status = metav1.ConditionFalse
	return p
}

// withFurtherObject adds an object to the payload that the bundle lacks.
func withFurtherObject(p *workv1.ManifestWork) *workv1.ManifestWork {
	p.Spec.Workload.Manifests = append(p.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}`),
	}})
	return p
}

// TestRedeliveredPayload holds that OCM does not take the cluster of a payload that was written again for complete.
func TestRedeliveredPayload(t *testing.T) {
	h := refusedEdit(t)
	h.executor = manifestwork.Executor("open-cluster-management-agent", "installer")
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(h.created) != 1 {
		t.Fatalf("the requests are %q", h.actions)
	}
	got := h.created[0]
	if diff := cmp.Diff(configs("h1"), manifestwork.ConfigsOf(got)); diff != "" {
		t.Errorf("the mark is wrong (-want +got):\n%s", diff)
	}
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	if !manifestwork.MatchBundle(h.created, b, h.works[0]) {
		t.Errorf("the payload is of another bundle: %s", got.Spec.Workload.Manifests)
	}
	if !metav1.IsControlledBy(got, h.addOn) || got.Spec.Executor == nil {
		t.Errorf("owners are %+v and the executor is %+v", got.OwnerReferences, got.Spec.Executor)
	}
}

// webhookObject is a webhook configuration of a bundle.
func webhookObject(t *testing.T) render.Object {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": "webhook.serving.knative.dev"},
		"webhooks": []any{map[string]any{"name": "config.webhook.serving.knative.dev", "failurePolicy": "Fail"}},
	}}
	raw, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return render.Object{Unstructured: u, JSON: raw}
}

// TestRedeliveryUnblocks holds that a cluster whose dead webhooks refuse objects of such a payload gets webhooks that ignore failures.
func TestRedeliveryUnblocks(t *testing.T) {
	configured := func() (*render.Bundle, error) {
		b, err := rolling()
		b.Payload = []render.Object{webhookObject(t)}
		return b, err
	}
	refused := func() *fakeHub {
		h := refusedEdit(t)
		h.bundlesOf["h1"] = configured
		p := deliveredPayload(t)
		refuses(p, "ConfigMap", "knative-serving", "config-logging", `failed calling webhook "config.webhook.serving.knative.dev": service "webhook" not found`)
		return h.with(p)
	}
	h := refused()
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(h.actions, updateFoundation) || !manifestwork.IsUnblocked(h.updated[0]) {
		t.Fatalf("the foundation is not unblocked: %q", h.actions)
	}
	next := refused()
	next.works[0].Annotations[api.UnblockedAnnotation] = "true"
	if err := next.reconcile(t); err != nil {
		t.Fatal(err)
	}
	b, err := configured()
	if err != nil {
		t.Fatal(err)
	}
	if len(next.updated) != 1 || !manifestwork.MatchBundle(next.updated, b, next.works[0]) {
		t.Fatalf("the payload does not ignore failures of webhooks: %q", next.actions)
	}
	// The agent has applied everything, and the foundation has lost the annotation in an earlier pass.
	blocked := refusedEdit(t)
	blocked.bundlesOf["h1"] = configured
	complete := deliveredPayload(t)
	complete.Spec.Workload = next.updated[0].Spec.Workload
	blocked.with(complete)
	if err := blocked.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(blocked.updated) != 1 || !manifestwork.MatchBundle(blocked.updated, b, blocked.works[0]) {
		t.Fatalf("the payload goes on ignoring failures of webhooks: %q", blocked.actions)
	}
	blocked.with(blocked.updated[0])
	blocked.works = slices.DeleteFunc(blocked.works, func(w *workv1.ManifestWork) bool { return w == complete })
	blocked.actions, blocked.updated = nil, nil
	if err := blocked.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(blocked.updated) > 0 {
		t.Errorf("a complete payload is written again: %q", blocked.actions)
	}
}

// large is a bundle whose payload OCM's builder divides into three works.
func large() (*render.Bundle, error) {
	b, err := rolling()
	for _, name := range []string{"a", "b", "c"} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "knative-serving", "name": name},
			"data": map[string]any{"text": strings.Repeat("x", 250_000)},
		}}
		raw, encodeErr := u.MarshalJSON()
		if encodeErr != nil {
			return nil, encodeErr
		}
		b.Payload = append(b.Payload, render.Object{Unstructured: u, JSON: bytes.TrimSpace(raw)})
	}
	return b, err
}

// TestDividedPayload holds that the missing work of a payload of several works is written, although the agent has applied the others: any work
// while the spec is refused, and otherwise any work but the last, for which addon-framework finds a free name.
func TestDividedPayload(t *testing.T) {
	refused := func() *fakeHub {
		h := refusedEdit(t)
		h.bundlesOf["h1"] = large
		return h
	}
	accepted := func() *fakeHub {
		h := delivered(t, 1).gated(t, "h1")
		h.bundles = large
		h.works = slices.DeleteFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == payload().Name })
		return h
	}
	b, err := large()
	if err != nil {
		t.Fatal(err)
	}
	h := refused()
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(h.created) != 3 {
		t.Fatalf("the payload has %d works", len(h.created))
	}
	for name, tc := range map[string]struct {
		hub     func() *fakeHub
		missing int
	}{
		"refused, the first": {refused, 0}, "refused, the second": {refused, 1}, "refused, the last": {refused, 2},
		"accepted, the first": {accepted, 0}, "accepted, the second": {accepted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			next, applied := tc.hub(), map[string]*workv1.ManifestWork{}
			for _, w := range slices.Delete(slices.Clone(h.created), tc.missing, tc.missing+1) {
				w = w.DeepCopy()
				w.Status = deliveredPayload(t).Status
				next.with(w)
				applied[w.Name] = w
			}
			if err := next.reconcile(t); err != nil {
				t.Fatal(err)
			}
			for _, w := range slices.Concat(next.created, next.updated) {
				applied[w.Name] = w
			}
			if !manifestwork.MatchBundle(slices.Collect(maps.Values(applied)), b, next.works[0]) {
				t.Errorf("the payload stays in part: %q", next.actions)
			}
		})
	}
}
