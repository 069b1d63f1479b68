// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// rolling is a bundle with one workload.
func rolling() (*render.Bundle, error) {
	return &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Digest: "d1", FoundationDigest: "f1", Namespace: "knative-serving",
		Workloads: []render.Workload{{Kind: "Deployment", Namespace: "knative-serving", Name: "activator"}},
	}, nil
}

// delivered is a cluster that has the bundle, with so many pods of its workload available.
func delivered(t *testing.T, available int64) *hub {
	t.Helper()
	h := newHub()
	h.bundles = rolling
	h.addOn.Finalizers = []string{api.FoundationFinalizer}
	h.addOn.Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: metav1.ConditionTrue}}
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	foundation, err := work.Foundation(b, h.addOn, hubUID)
	if err != nil {
		t.Fatal(err)
	}
	p := payload()
	for _, o := range work.Payload(b, &workv1.ManifestWork{}) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%T is in the payload", o)
		}
		raw, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Workload.Manifests = append(p.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	p.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{evidence(t, b, false), workload(available)}
	for _, w := range []*workv1.ManifestWork{foundation, p} {
		seen(w, metav1.ConditionTrue)
	}
	return h.with(foundation, p)
}

// proven adds the proof of a bundle with the digest, as the agent has reported on it.
func (h *hub) proven(t *testing.T, digest string, there bool) *hub {
	t.Helper()
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	b.Digest = digest
	proof := work.Proof(b, &workv1.ManifestWork{}, h.addOn)
	proof.UID = "p1"
	proof.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{evidence(t, b, there)}
	seen(proof, map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[there])
	return h.with(proof)
}

func (h *hub) changed(change func(h *hub)) *hub {
	change(h)
	return h
}

func seen(w *workv1.ManifestWork, available metav1.ConditionStatus) {
	w.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: workv1.WorkAvailable, Status: available},
	}
}

// evidence is what the agent says of the object that a proof brings.
func evidence(t *testing.T, b *render.Bundle, there bool) workv1.ManifestCondition {
	t.Helper()
	objects := work.Payload(b, &workv1.ManifestWork{})
	u, ok := objects[len(objects)-1].(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("the evidence is %T", objects[len(objects)-1])
	}
	c := metav1.Condition{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue, Reason: "ResourceAvailable"}
	if !there {
		c.Status, c.Reason = metav1.ConditionFalse, "ResourceNotAvailable"
	}
	return workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}, Conditions: []metav1.Condition{c},
	}
}

func workload(available int64) workv1.ManifestCondition {
	m := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Resource: "deployments", Namespace: "knative-serving", Name: "activator"},
	}
	for name, n := range map[string]int64{
		"Generation": 1, "ObservedGeneration": 1, "SpecReplicas": 1, "Replicas": 1, "UpdatedReplicas": 1, "AvailableReplicas": available,
	} {
		m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{
			Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: new(n)},
		})
	}
	return m
}

func TestProof(t *testing.T) {
	const (
		status       = "patch managedclusteraddons/status/knative-serving"
		createProof  = "create manifestworks/knative-serving-proof"
		deleteProof  = "delete manifestworks/knative-serving-proof"
		updateProof  = "update manifestworks/knative-serving-proof"
		patchProof   = "patch manifestworks/knative-serving-proof"
		patchPayload = "patch manifestworks/addon-knative-serving-deploy-0"
	)
	for name, tc := range map[string]struct {
		reason string
		hub    *hub
		want   []string
	}{
		"it runs": {
			reason: "This is what is to be proven.", hub: delivered(t, 1), want: []string{status, createProof},
		},
		"it does not run yet": {
			reason: "OCM would go on.", hub: delivered(t, 0), want: []string{status},
		},
		"the proof has arrived": {
			reason: "The agent did not find it before, and does not watch for it.",
			hub:    delivered(t, 1).proven(t, "d1", true), want: []string{status, patchPayload},
		},
		"the agent was asked": {
			reason: "It takes a moment, and asking again would make it longer.",
			hub: delivered(t, 1).proven(t, "d1", true).changed(func(h *hub) {
				h.works[1].Annotations = map[string]string{api.LookAnnotation: "p1"}
			}),
			want: []string{status},
		},
		"the agent was asked, and addon-framework was faster": {
			reason: "It takes the annotation away, and would do so for ever.",
			hub:    delivered(t, 1).proven(t, "d1", true).changed(func(h *hub) { h.asked = "p1" }),
			want:   []string{status},
		},
		"the agent was asked for the proof before": {
			reason: "That is another one.",
			hub:    delivered(t, 1).proven(t, "d1", true).changed(func(h *hub) { h.asked = "p0" }),
			want:   []string{status, patchPayload},
		},
		"the agent was asked and has answered": {
			reason: "addon-framework would take the annotation away when it starts again.",
			hub: delivered(t, 1).proven(t, "d1", true).changed(func(h *hub) {
				b, _ := rolling()
				h.works[1].Status.ResourceStatus.Manifests[0] = evidence(t, b, true)
				h.works[1].Annotations = map[string]string{api.LookAnnotation: "p1"}
			}),
			want: []string{status, patchPayload},
		},
		"the agent has found it": {
			reason: "There is nothing more to do, whatever becomes of the workloads.",
			hub: delivered(t, 0).proven(t, "d1", true).changed(func(h *hub) {
				b, _ := rolling()
				h.works[1].Status.ResourceStatus.Manifests[0] = evidence(t, b, true)
			}),
			want: []string{status},
		},
		"somebody has deleted it on the cluster": {
			reason: "The agent brings it again at once.",
			hub:    delivered(t, 1).proven(t, "d1", false), want: []string{status, patchProof},
		},
		"somebody has deleted it on the cluster, and the agent was told": {
			reason: "It may be away.",
			hub: delivered(t, 1).proven(t, "d1", false).changed(func(h *hub) {
				lost := metav1.Unix(1700000000, 0)
				proof := h.works[2]
				proof.Status.ResourceStatus.Manifests[0].Conditions[0].LastTransitionTime = lost
				proof.Labels[api.RepairLabel] = "1700000000"
			}), want: []string{status},
		},
		"it is about something else": {
			reason: "It goes before anything new comes.",
			hub:    delivered(t, 1).proven(t, "d0", true), want: []string{status, deleteProof},
		},
		"it is on its way out": {
			reason: "The next one comes when it is gone.",
			hub: delivered(t, 1).proven(t, "d1", true).changed(func(h *hub) {
				h.works[2].DeletionTimestamp = new(metav1.Unix(1, 0))
			}),
			want: []string{status},
		},
		"it was another add-on's": {
			reason: "It was handed over with the other works.",
			hub: delivered(t, 1).proven(t, "d1", true).changed(func(h *hub) {
				h.works[2].OwnerReferences = nil
			}),
			want: []string{status, updateProof},
		},
		"left of an installation before": {
			reason: "Its foundation was another one: what the cluster had is not what it has.",
			hub: delivered(t, 1).proven(t, "d1", true).changed(func(h *hub) {
				for _, w := range h.works[:2] {
					w.UID = "f2"
				}
			}),
			want: []string{status, deleteProof},
		},
		"left beside a probe": {
			reason: "Nothing is installed, and the Knative that is there proves nothing.",
			hub: newHub().with(probeWork(t, "h2", map[string]string{"AppliedBy": "abc"})).changed(func(h *hub) {
				h.works = append(h.works, delivered(t, 1).proven(t, "d1", true).works[2])
			}),
			want: []string{status, deleteProof},
		},
		"paused": {
			reason: "Nothing comes to the cluster, and nothing goes.",
			hub:    delivered(t, 1).proven(t, "d0", true).isPaused(), want: []string{status},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.hub.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProofGoesWithTheInstallation(t *testing.T) {
	const (
		deleteProof = "delete manifestworks/knative-serving-proof"
		status      = "patch managedclusteraddons/status/knative-serving"
		addOn       = "patch managedclusteraddons/knative-serving"
	)
	proof := func() *workv1.ManifestWork {
		return work.Proof(&render.Bundle{Component: api.Serving, Digest: "d1"}, &workv1.ManifestWork{}, newHub().addOn)
	}
	going := proof()
	going.DeletionTimestamp = new(metav1.Unix(1, 0))
	for name, tc := range map[string]struct {
		reason string
		hub    *hub
		want   []string
	}{
		"after the payload": {
			reason: "Nothing else waits for it.",
			hub:    newHub().allowed().with(foundationWork(), proof()),
			want:   []string{status, deleteProof, "delete manifestworks/knative-serving-foundation"},
		},
		"as the last": {
			reason: "The add-on is held until it is gone.", hub: newHub().allowed().with(going), want: []string{status},
		},
		"by force": {
			reason: "Nobody misses it, and an agent that is away takes it when it is back.",
			hub:    newHub().deleting().annotated(api.ForceOrphanAnnotation, "true").with(work.Orphaned(payload()), proof()),
			want:   []string{deleteProof, addOn},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.hub.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	fault := &render.Error{Reason: render.ReasonUnknownVersion, Message: "no such version"}
	for name, tc := range map[string]struct {
		reason  string
		hub     *hub
		fault   *render.Error
		status  metav1.ConditionStatus // empty means that nothing is said
		because string
	}{
		"it runs without a proof": {
			reason: "The proof is OCM's business.", hub: delivered(t, 1), status: metav1.ConditionTrue, because: addonv1beta1.AddonAvailableReasonProbeAvailable,
		},
		"it runs, and the payload is not Available": {
			reason: "It waits for the proof.", status: metav1.ConditionTrue, because: addonv1beta1.AddonAvailableReasonProbeAvailable,
			hub: delivered(t, 1).changed(func(h *hub) { seen(h.works[1], metav1.ConditionFalse) }),
		},
		"pods are missing": {
			reason: "Users need to know.", hub: delivered(t, 0), status: metav1.ConditionFalse, because: addonv1beta1.AddonAvailableReasonProbeUnavailable,
		},
		"nobody knows what the cluster should have": {
			reason: "The cause is told.", hub: delivered(t, 1), fault: fault,
			status: metav1.ConditionFalse, because: addonv1beta1.AddonAvailableReasonProbeUnavailable,
		},
		"nothing is delivered": {
			reason: "It is on its way.", hub: delivered(t, 1).changed(func(h *hub) { h.works = h.works[:1] }),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonWorkNotFound,
		},
		"it is looked who has the cluster": {
			reason: "Somebody else's Knative is not the add-on's.",
			hub: newHub().with(probeWork(t, "h2", map[string]string{"AppliedBy": "abc"})).changed(func(h *hub) {
				h.addOn.Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: metav1.ConditionFalse}}
			}),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonWorkNotFound,
		},
		"the agent has said nothing": {
			reason: "It is on its way.", hub: delivered(t, 1).changed(func(h *hub) { h.works[1].Status = workv1.ManifestWorkStatus{} }),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonWorkNotApply,
		},
		"the agent has said nothing of workloads": {
			reason: "It is on its way.", hub: delivered(t, 1).changed(func(h *hub) { h.works[1].Status.ResourceStatus.Manifests = nil }),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonNoProbeResult,
		},
		"the cluster is out of sight": {
			reason: "OCM says Unknown of all its add-ons.", hub: delivered(t, 1).unreachable(),
		},
		"addon-framework has not said that anything is delivered": {
			reason: "It says so first.", hub: delivered(t, 1).changed(func(h *hub) { h.addOn.Status.Conditions = nil }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := rolling()
			if err != nil {
				t.Fatal(err)
			}
			s := &scope{component: api.Serving, addon: tc.hub.addOn, cluster: tc.hub.cluster, payloads: tc.hub.works[1:]}
			got := available(s, outcome{bundle: b, fault: tc.fault})
			switch {
			case got == nil && tc.status != "", got != nil && (got.Status != tc.status || got.Reason != tc.because || got.Message == ""):
				t.Errorf("%s It is %+v, want %s %s", tc.reason, got, tc.status, tc.because)
			}
		})
	}
}
