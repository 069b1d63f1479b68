// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// ownedDelivery is a cluster that runs its payload, with the metadata of addon-framework and an open gate.
func ownedDelivery(t *testing.T) *fakeHub {
	t.Helper()
	h := delivered(t, 1).gated(t, "h1")
	payloadOf(h).OwnerReferences = addon.PayloadOwners(h.addOn)
	return h
}

// payloadOf returns the payload of the hub.
func payloadOf(h *fakeHub) *workv1.ManifestWork {
	return h.works[slices.IndexFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == payload().Name })]
}

// forgeConfigs makes the payload name the spec with another hash.
func forgeConfigs(h *fakeHub) {
	payloadOf(h).Annotations[workv1.ManifestConfigSpecHashAnnotationKey] = manifestwork.ConfigsText(configs("forged"))
}

// addManifest adds a manifest to the payload.
func addManifest(h *fakeHub, text string) {
	p := payloadOf(h)
	p.Spec.Workload.Manifests = append(p.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
}

// TestRestorePayloads holds when the controller writes the metadata of payloads, which addon-framework does not repair.
func TestRestorePayloads(t *testing.T) {
	const due, early = metadataWait, metadataWait - time.Second
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		reason string
		change func(h *fakeHub)
		// since is the time since the first pass that found the difference; 0 in the first pass.
		since time.Duration
		want  []string
		// wait is the time until the next pass.
		wait time.Duration
		err  error
	}{
		"equal":                {reason: "Nothing is to be restored.", change: func(*fakeHub) {}, since: due, want: []string{patchStatus}},
		"other configurations": {reason: "OCM waits for the cluster.", change: forgeConfigs, since: due, want: []string{patchStatus, patchPayload}},
		"other configurations, for the first time": {
			reason: "addon-framework may be writing the payload.", change: forgeConfigs, want: []string{patchStatus}, wait: metadataWait,
		},
		"other configurations, for a short time": {
			reason: "addon-framework may be writing the payload.", change: forgeConfigs, since: early, want: []string{patchStatus}, wait: time.Second,
		},
		"other configurations after the deletion of an empty payload": {
			reason: "addon-framework has no payload to write.", since: due, want: []string{patchStatus, strings.Replace(patchPayload, "deploy-0", "deploy-1", 1)},
			change: func(h *fakeHub) {
				forgeConfigs(h)
				payloadOf(h).Name = addon.PayloadName(h.addOn, 1)
			},
		},
		"no annotations": {
			reason: "OCM waits for the cluster.", since: due, want: []string{patchStatus, patchPayload},
			change: func(h *fakeHub) { payloadOf(h).Annotations = nil },
		},
		"another owner": {
			reason: "The garbage collector would delete the payload.", since: due, want: []string{patchStatus, patchPayload},
			change: func(h *fakeHub) { payloadOf(h).OwnerReferences[0].UID = "u0" },
		},
		"a leaving payload": {
			reason: "The next payload follows.", since: due, want: []string{patchStatus},
			change: func(h *fakeHub) {
				forgeConfigs(h)
				payloadOf(h).Finalizers, payloadOf(h).DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, new(metav1.Now())
			},
		},
		"other manifests": {
			reason: "addon-framework writes manifests and metadata behind a closed gate.", since: due, want: []string{patchStatus, patchGate + " closes"},
			change: func(h *fakeHub) {
				forgeConfigs(h)
				payloadOf(h).Spec.Workload.Manifests = nil
			},
		},
		"an unreadable manifest": {
			reason: "Each write of addon-framework fails.", want: []string{patchStatus, updatePayload},
			change: func(h *fakeHub) {
				addManifest(h, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"items":[]}`)
			},
		},
		"a readable manifest of another": {
			reason: "addon-framework removes the manifest.", want: []string{patchStatus},
			change: func(h *fakeHub) { addManifest(h, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`) },
		},
		"without the label": {
			reason: "addon-framework takes the payload for written.", since: due, want: []string{patchStatus, patchPayload},
			change: func(h *fakeHub) { payloadOf(h).Labels = nil },
		},
		"without the label, for the first time": {
			reason: "addon-framework may be creating the payload.", want: []string{patchStatus}, wait: metadataWait,
			change: func(h *fakeHub) { payloadOf(h).Labels = nil },
		},
		"no payload of an installation that never ran": {
			reason: "addon-framework creates the payload, in minutes when a thousand clusters are installed.", since: due,
			want: []string{patchStatus}, wait: firstPayloadWait - due,
			change: func(h *fakeHub) {
				payloadOf(h).Labels = nil
				delete(h.works[0].Annotations, api.RunningVersionAnnotation)
			},
		},
		"no payload of an installation that never ran, for long": {
			reason: "addon-framework takes the payload for written.", since: firstPayloadWait, want: []string{patchStatus, patchPayload},
			change: func(h *fakeHub) {
				payloadOf(h).Labels = nil
				delete(h.works[0].Annotations, api.RunningVersionAnnotation)
			},
		},
		"no payload": {
			reason: "addon-framework creates the payload.", since: due, want: []string{patchStatus, patchPayload},
			change: func(h *fakeHub) {
				h.works = slices.DeleteFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == payload().Name })
			},
		},
		"a hub that refuses": {
			reason: "The next pass tries again.", since: due, want: []string{patchStatus, patchPayload}, err: refused,
			change: func(h *fakeHub) {
				forgeConfigs(h)
				h.failPatch = refused
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := ownedDelivery(t)
			tc.change(h)
			if tc.since > 0 {
				h.differsSince = passTime.Add(-tc.since)
			}
			if err := h.reconcile(t); !errors.Is(err, tc.err) {
				t.Fatalf("the error is %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, h.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if h.result.RequeueAfter != tc.wait {
				t.Errorf("the next pass is in %v, want %v", h.result.RequeueAfter, tc.wait)
			}
			if h.triggered != (tc.err == nil) {
				t.Errorf("addon-framework is triggered: %t", h.triggered)
			}
		})
	}
}

// TestRestoredMetadata holds the metadata of the restored payload.
func TestRestoredMetadata(t *testing.T) {
	h := ownedDelivery(t)
	want := payloadOf(h).DeepCopy()
	forgeConfigs(h)
	payloadOf(h).OwnerReferences = nil
	h.differsSince = passTime.Add(-metadataWait)
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	got := h.storedWork(t, want.Name)
	if diff := cmp.Diff([]any{want.Labels, want.Annotations, want.OwnerReferences}, []any{got.Labels, got.Annotations, got.OwnerReferences}); diff != "" {
		t.Errorf("the payload has other metadata (-want +got):\n%s", diff)
	}
	if got.Labels[addonv1beta1.AddonLabelKey] == "" || len(got.Spec.Workload.Manifests) != len(want.Spec.Workload.Manifests) {
		t.Errorf("the payload has labels %v and %d manifests", got.Labels, len(got.Spec.Workload.Manifests))
	}
}

// TestUnreadableManifest holds that the written payload has the manifests of the bundle, and that the others are gone.
func TestUnreadableManifest(t *testing.T) {
	h := ownedDelivery(t)
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"apiVersion":"apps/","kind":"Deployment","metadata":{"name":"x"}}`, `[]`, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"items":[]}`} {
		addManifest(h, text)
	}
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if got := h.updated[0]; !manifestwork.MatchBundle([]*workv1.ManifestWork{got}, b, h.works[0]) {
		t.Errorf("the payload has %d manifests, which are not those of the bundle", len(got.Spec.Workload.Manifests))
	}
}

// TestLostLabel holds that a work which no cache has, because the work lost its label, gets the label again.
func TestLostLabel(t *testing.T) {
	h := ownedDelivery(t)
	gate := h.works[slices.IndexFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == manifestwork.GateName(api.Serving) })]
	delete(gate.Labels, api.FoundationLabel)
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{patchStatus, createGate, patchGate}, h.actions); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
	if got := h.storedWork(t, gate.Name).Labels[api.FoundationLabel]; got != string(api.Serving) {
		t.Errorf("the label is %q, want %q", got, api.Serving)
	}
}

// TestForeignLabel holds that a foundation never has the label by which OCM counts works.
func TestForeignLabel(t *testing.T) {
	h := ownedDelivery(t)
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	h.works[0].Annotations[api.RenderingInputsAnnotation] = b.Inputs
	h.works[0].Labels[addonv1beta1.AddonLabelKey] = api.Serving.AddOnName()
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{patchStatus, updateFoundation}, h.actions); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
	if got, want := h.updated[0].Labels, map[string]string{api.FoundationLabel: string(api.Serving)}; !maps.Equal(got, want) {
		t.Errorf("the labels are %v, want %v", got, want)
	}
}
