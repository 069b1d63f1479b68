// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func TestReconcile(t *testing.T) {
	bad := newHub()
	bad.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: api.ReasonUnknownVersion, Message: "no"}
	}
	pending := newHub()
	pending.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: api.FaultRenderPending, Message: "wait"}
	}
	far := newHub()
	far.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: api.ReasonNotEligible, Message: "too far"}
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

// TestAwaitFirstWrites holds that the manager writes no new add-on before OCM has configured the add-on, and that no add-on waits for writes that
// never come.
func TestAwaitFirstWrites(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	written := func(conditions ...string) func(*scope) {
		return func(s *scope) {
			for _, c := range conditions {
				s.addon.Status.Conditions = append(s.addon.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionFalse})
			}
		}
	}
	for name, tc := range map[string]struct {
		reason string
		age    time.Duration
		change func(*scope)
		want   time.Duration
	}{
		"new":         {reason: "OCM writes the add-on.", age: 2 * time.Second, want: 8 * time.Second},
		"old":         {reason: "The writes may never come.", age: 11 * time.Second},
		"progressing": {reason: "OCM has not configured the add-on yet.", age: time.Second, change: written("Progressing"), want: 9 * time.Second},
		"configured":  {reason: "The first writes are over.", age: time.Second, change: written("Configured")},

		"from the future":   {reason: "The clocks differ.", age: -time.Hour},
		"without a cluster": {reason: "OCM configures no add-on there.", age: time.Second, change: func(s *scope) { s.cluster = nil }},
		"with a foundation": {reason: "The add-on replaces another add-on.", age: time.Second, change: func(s *scope) { s.foundation = foundationWork() }},
		"with a payload":    {reason: "The add-on replaces another add-on.", age: time.Second, change: func(s *scope) { s.payloads = []*workv1.ManifestWork{payload()} }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{cluster: newHub().cluster, addon: newHub().addOn}
			s.addon.CreationTimestamp = metav1.NewTime(now.Add(-tc.age))
			if tc.change != nil {
				tc.change(s)
			}
			r := &Reconciler{Clock: testclock.NewFakePassiveClock(now)}
			if got := r.awaitFirstWrites(s); got != tc.want {
				t.Errorf("%s got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}
