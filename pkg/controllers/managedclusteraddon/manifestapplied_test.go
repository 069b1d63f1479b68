// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
)

// refuses makes the agent report that the cluster refused an object of the work.
func refuses(w *workv1.ManifestWork, kind, namespace, name, cause string) {
	w.Status.Conditions[0].Status = metav1.ConditionFalse
	w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Namespace: namespace, Name: name},
		Conditions: []metav1.Condition{
			{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: cause},
			{Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"},
		},
	})
}

// TestDetermineManifestApplied holds that the condition names objects and causes, and that a wait does not undo what was applied.
func TestDetermineManifestApplied(t *testing.T) {
	deliverable := addon.DeliveryDecision{State: addon.Deliverable}
	waiting := addon.DeliveryDecision{State: addon.AwaitingFoundation, Message: "waiting for the foundation"}
	says := func(status metav1.ConditionStatus, reason string) func(h *fakeHub) {
		return func(h *fakeHub) {
			h.addOn.Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: status, Reason: reason}}
		}
	}
	for name, tc := range map[string]struct {
		reason   string
		hub      *fakeHub
		decision addon.DeliveryDecision
		want     string // empty means that the condition stays
	}{
		"applied": {
			reason: "The text is the text of addon-framework.", hub: delivered(t, 1), decision: deliverable,
			want: "True AddonManifestApplied manifests of addon are applied successfully",
		},
		"objects are refused": {
			reason: "The user needs the object and the cause.", decision: deliverable,
			hub: delivered(t, 1).changed(func(h *fakeHub) {
				refuses(h.works[1], "ConfigMap", "knative-serving", "config-defaults", "the house rules\nforbid this")
				refuses(h.works[0], "ClusterRole", "", "knative-serving-admin", "forbidden")
			}),
			want: "False AddonManifestAppliedFailed ClusterRole knative-serving-admin was not applied: forbidden; ConfigMap knative-serving/config-defaults was not applied: the house rules forbid this",
		},
		"the foundation is refused": {
			reason: "The payload never comes.", decision: waiting,
			hub:  delivered(t, 1).changed(func(h *fakeHub) { refuses(h.works[0], "Namespace", "", "knative-serving", "forbidden") }),
			want: "False AddonManifestAppliedFailed Namespace knative-serving was not applied: forbidden",
		},
		"a report of an earlier generation": {
			reason: "The agent is about to apply.", decision: deliverable,
			hub: delivered(t, 1).changed(func(h *fakeHub) {
				refuses(h.works[1], "ConfigMap", "knative-serving", "config-defaults", "forbidden")
				h.works[1].Generation = 7
				says(metav1.ConditionFalse, "x")(h)
			}),
			want: `Unknown Delivering waiting for ManifestWork "addon-knative-serving-deploy-0": the work agent has not applied the work yet`,
		},
		"the next foundation is on its way": {
			reason: "The cluster has its manifests.", hub: delivered(t, 1), decision: waiting,
		},
		"the first foundation is on its way": {
			reason: "Nothing is applied yet.", hub: newHub(), decision: waiting, want: "Unknown Delivering waiting for the foundation",
		},
		"the payload is written next": {
			reason: "The cluster has its manifests.", hub: delivered(t, 1).wants("h2"), decision: deliverable,
		},
		"the hub refuses the payload": {
			reason: "addon-framework has the error.", decision: deliverable,
			hub: delivered(t, 1).wants("h2").changed(says(metav1.ConditionFalse, addonv1beta1.AddonManifestAppliedReasonWorkApplyFailed)),
		},
		"a bad configuration": {
			reason: "The fault is told.", hub: delivered(t, 1), want: "False UnknownVersion no version 9.9",
			decision: addon.DeliveryDecision{State: addon.InvalidConfiguration, Reason: "UnknownVersion", Message: "no version 9.9"},
		},
		"paused before another configuration": {
			reason: "OCM gave the cluster a configuration.", hub: delivered(t, 1).wants("h2"), decision: addon.DeliveryDecision{State: addon.Paused, Reason: api.ReasonPaused, Message: "paused by x"},
			want: `False Paused paused by x: cluster "cluster1" keeps its installation instead of the new configuration; remove the annotation to continue`,
		},
		"paused": {
			reason: "The cluster has its configuration.", hub: delivered(t, 1), decision: addon.DeliveryDecision{State: addon.Paused, Reason: api.ReasonPaused, Message: "paused by x"},
			want: "True AddonManifestApplied manifests of addon are applied successfully",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := rolling()
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if c := determineManifestApplied(tc.hub.scope(t), addon.DeliveryInput{Bundle: b}, tc.decision); c != nil {
				got = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if got != tc.want {
				t.Errorf("%s\ngot  %q\nwant %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestRemovalIsNotAvailable holds that the condition Available tells of a removal.
func TestRemovalIsNotAvailable(t *testing.T) {
	h := delivered(t, 1).allowed()
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if h.stored == nil {
		t.Fatalf("nothing was stored: %q", h.actions)
	}
	for _, c := range h.stored.Status.Conditions {
		if c.Type == addonv1beta1.ManagedClusterAddOnConditionAvailable && c.Status == metav1.ConditionFalse && c.Reason == api.ReasonRemoving {
			return
		}
	}
	t.Errorf("the conditions are %+v", h.stored.Status.Conditions)
}

// TestStatusAndMetadataInOnePass holds that a pass which writes the status and the finalizer sends the second write for the object that
// the first write returned: the API server refuses any other resource version.
func TestStatusAndMetadataInOnePass(t *testing.T) {
	h := newHub().with(probeWork(t, "", nil))
	h.serveVersions = true
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(h.refusedVersions) > 0 {
		t.Errorf("patches with old resource versions: %q", h.refusedVersions)
	}
}
