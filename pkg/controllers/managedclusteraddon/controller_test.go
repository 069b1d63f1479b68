// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func TestReconcile(t *testing.T) {
	bad := newHub()
	bad.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: render.ReasonUnknownVersion, Message: "no"}
	}
	pending := newHub()
	pending.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: render.ReasonPending, Message: "wait"}
	}
	far := newHub()
	far.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: render.ReasonVersionMigrationNotEligible, Message: "too far"}
	}
	revoked := newHub()
	revoked.target = targetOf{Reason: api.ReasonReferenceNotPermitted, Message: "no set is bound"}
	unanswered := probeWork(t, "", nil)
	unanswered.Status = workv1.ManifestWorkStatus{}
	leaving := manifestwork.Orphaned(payload())
	leaving.Finalizers, leaving.DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, new(metav1.Now())
	successor := newHub().with(foundationWork())
	successor.handedOver("c1", addonv1beta1.AddOnConfig{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: "blue", Name: "a"},
	})
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
	}{
		"new add-on": {
			reason: "The probe is the first work; no finalizer is needed yet.",
			hub:    newHub(), want: []string{patchStatus, createProbe},
		},
		"free cluster": {
			reason: "The finalizer is there before the first object is.",
			hub:    newHub().with(probeWork(t, "", nil)), want: []string{patchStatus, patchAddOn, createFoundation, createGate},
		},
		"free cluster by the probe of an older manager": {
			reason: "The probe becomes the foundation.",
			hub:    newHub().with(olderProbe(probeWork(t, "", nil))), want: []string{patchStatus, patchAddOn, updateFoundation, createGate},
		},
		"foundation beside its probe": {
			reason: "The foundation has the record of the probe.",
			hub:    delivered(t, 1).with(probeWork(t, "", map[string]string{})), want: []string{patchStatus, deleteProbe, createGate},
		},
		"foundation beside its probe, not applied yet": {
			reason: "The agent applies the CRDs with the permission of the probe.",
			hub:    unapplied(t, manifestwork.FoundationName(api.Serving)).with(probeWork(t, "", map[string]string{})), want: []string{patchStatus, createGate},
		},
		"payload beside a probe, not applied yet": {
			reason: "The deletion of the probe would slow the agent down.",
			hub:    unapplied(t, payload().Name).with(probeWork(t, "", map[string]string{})), want: []string{patchStatus, createGate},
		},
		"unknown cluster": {
			reason: "Nothing is written as long as the agent has not answered.",
			hub:    newHub().with(unanswered), want: []string{patchStatus},
		},
		"an earlier installation leaves, the foundation first": {
			reason: "Only a probe tells which CRDs the hub has created, and the probe follows the last payload.",
			hub:    newHub().with(leaving), want: []string{patchStatus},
		},
		"a cluster with a foreign installation": {
			reason: "The condition reports the installation, and nothing is written.",
			hub:    newHub().with(probeWork(t, "", map[string]string{})), want: []string{patchStatus},
		},
		"a cluster with a foreign installation to adopt": {
			reason: "The administrator permits the adoption.",
			hub:    newHub().adopting().with(probeWork(t, "", map[string]string{})), want: []string{patchStatus, patchAddOn, createFoundation, createGate},
		},
		"payload without foundation": {
			reason: "The payload belongs to the add-on, and only a probe reads which CRDs the hub has created.",
			hub:    newHub().with(payload()), want: []string{patchStatus, createProbe},
		},
		"paused probe": {
			reason: "There is nothing to hold.",
			hub:    newHub().isPaused().with(probeWork(t, "", nil)), want: []string{patchStatus},
		},
		"version out of reach": {
			reason: "The condition reports the version, and nothing else is written.",
			hub:    far, want: []string{patchStatus},
		},
		"a bundle that is being rendered": {
			reason: "What was reported stays.", hub: pending,
		},
		"bad configuration": {
			reason: "What cannot be rendered changes nothing.",
			hub:    bad, want: []string{patchStatus},
		},
		"consent revoked": {
			reason: "The condition reports the refusal, and nothing new is written.",
			hub:    revoked, want: []string{patchStatus},
		},
		"cluster leaves": {
			reason: "Nothing new is delivered to a cluster that is being detached.",
			hub:    newHub().detaching(), want: []string{patchStatus},
		},
		"paused": {
			reason: "The status is reported; nothing is written.",
			hub:    newHub().isPaused(), want: []string{patchStatus},
		},
		"paused with works": {
			reason: "What is there is held, and stays.",
			hub:    newHub().isPaused().with(payload(), foundationWork()), want: []string{patchStatus, patchAddOn},
		},
		"successor of another add-on": {
			reason: "It gets the configuration of that one before anything else.",
			hub:    successor, want: []string{patchAddOn},
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

// TestLoggedRevision holds that the log line of a pass has the hash of the spec that the pass delivers.
func TestLoggedRevision(t *testing.T) {
	h := delivered(t, 1)
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if want := `"cluster"="cluster1" "component"="knative-serving" "revision"="h1" "result"="done"`; !strings.Contains(h.logged, want) {
		t.Errorf("%q is not in log line %q", want, h.logged)
	}
}
