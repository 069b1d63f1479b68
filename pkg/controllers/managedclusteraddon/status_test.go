// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestDetermineValuesResolved holds that the condition exists only after a value was missing.
func TestDetermineValuesResolved(t *testing.T) {
	missing := &render.Error{Reason: api.ReasonValueMissing, Message: "no region"}
	other := &render.Error{Reason: api.ReasonInvalidSpec, Message: "bad"}
	for name, tc := range map[string]struct {
		had   bool
		fault *render.Error
		want  string
	}{
		"never missing":          {false, nil, ""},
		"missing":                {false, missing, "False ValueMissing no region"},
		"still missing":          {true, missing, "False ValueMissing no region"},
		"found":                  {true, nil, "True ValuesFound the cluster has every value that its configuration uses"},
		"nobody knows":           {true, other, ""},
		"bad, and never missing": {false, other, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{addon: newHub().addOn}
			if tc.had {
				s.addon.Status.Conditions = []metav1.Condition{{Type: api.ValuesResolved, Status: metav1.ConditionFalse}}
			}
			got := ""
			if c := determineValuesResolved(s, tc.fault); c != nil {
				got = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestDetermineDependencies holds that the condition names objects of kinds that the cluster does not know, and exists only after a kind
// was missing.
func TestDetermineDependencies(t *testing.T) {
	noKind := func(w *workv1.ManifestWork) {
		refuses(w, "Gateway", "knative-serving", "ingress", `no matches for kind "Gateway" in version "networking.istio.io/v1"`)
	}
	forbidden := func(w *workv1.ManifestWork) {
		refuses(w, "ConfigMap", "knative-serving", "config-defaults", "forbidden")
	}
	for name, tc := range map[string]struct {
		had        bool
		payload    func(*workv1.ManifestWork)
		foundation func(*workv1.ManifestWork)
		want       string
	}{
		"never missing":                 {},
		"missing":                       {payload: noKind, want: "False KindMissing the cluster does not know the kind of: Gateway knative-serving/ingress; install what brings it"},
		"missing in the foundation":     {foundation: noKind, want: "False KindMissing the cluster does not know the kind of: Gateway knative-serving/ingress; install what brings it"},
		"found":                         {had: true, want: "True NothingMissing the cluster knows every kind that Knative needs"},
		"an object that is refused":     {payload: forbidden},
		"a report on an old generation": {payload: func(w *workv1.ManifestWork) { noKind(w); w.Generation++ }},
	} {
		t.Run(name, func(t *testing.T) {
			h := delivered(t, 1)
			for i, change := range []func(*workv1.ManifestWork){tc.foundation, tc.payload} {
				if change != nil {
					change(h.works[i])
				}
			}
			s := &scope{addon: h.addOn, foundation: h.works[0], payloads: h.works[1:2]}
			if tc.had {
				s.addon.Status.Conditions = []metav1.Condition{{Type: api.DependenciesInstalled, Status: metav1.ConditionFalse}}
			}
			got := ""
			if c := determineDependencies(s); c != nil {
				got = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

const (
	activatorManifest = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"activator","namespace":"knative-serving"},"spec":{"replicas":1}}`
	webhookManifest   = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"webhook","namespace":"knative-serving"},"spec":{"replicas":1}}`
)

// carries adds manifests to the payload.
func (h *fakeHub) carries(manifests ...string) *fakeHub {
	for _, m := range manifests {
		h.works[1].Spec.Workload.Manifests = append(h.works[1].Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return h
}

// TestDetermineDegraded holds that a refused configuration is reported as long as the cluster keeps an installation.
func TestDetermineDegraded(t *testing.T) {
	fault := &render.Error{Reason: api.ReasonUnknownVersion, Message: "no version 9.9"}
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		fault  *render.Error
		want   string
	}{
		"a bad edit": {
			reason: "The cluster keeps what it has.", hub: delivered(t, 1), fault: fault,
			want: `True ConfigurationRefused the configuration is not applied, and cluster "cluster1" keeps knative-serving 1.23.0: UnknownVersion: no version 9.9`,
		},
		"a bad first configuration": {reason: "The cluster has nothing to keep.", hub: newHub(), fault: fault},
		"no fault":                  {reason: "There is nothing to say.", hub: delivered(t, 1)},
		"OCM has assigned no configuration": {
			reason: "That is no fault of the configuration.", hub: delivered(t, 1), fault: &render.Error{Reason: api.FaultConfigPending, Message: "wait"},
		},
		"the fault has ended": {
			reason: "The condition was there.", want: "False ConfigurationUsable the configuration yields manifests",
			hub: delivered(t, 1).changed(func(h *fakeHub) {
				h.addOn.Status.Conditions = append(h.addOn.Status.Conditions, metav1.Condition{Type: api.Degraded, Status: metav1.ConditionTrue})
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c := determineDegraded(tc.hub.scope(t), tc.fault); c != nil {
				got = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if got != tc.want {
				t.Errorf("%s got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// scope is the scope of a pass over the add-on.
func (h *fakeHub) scope(t *testing.T) *scope {
	t.Helper()
	s := &scope{component: api.Serving, namespace: clusterName, addon: h.addOn, cluster: h.cluster}
	for _, w := range h.works {
		switch w.Name {
		case manifestwork.FoundationName(api.Serving):
			s.foundation = w
		case manifestwork.GateName(api.Serving):
			s.gate = w
		default:
			s.payloads = append(s.payloads, w)
		}
	}
	return s
}

func TestDetermineAvailable(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		hub     *fakeHub
		invalid bool                   // the configuration yields no bundle
		status  metav1.ConditionStatus // empty means that nothing is said
		because string
	}{
		"it runs": {
			reason: "There is nothing to say.", hub: delivered(t, 1), status: metav1.ConditionTrue, because: addonv1beta1.AddonAvailableReasonProbeAvailable,
		},
		"it runs, and the payload is not Available": {
			reason: "What counts are workloads.", status: metav1.ConditionTrue, because: addonv1beta1.AddonAvailableReasonProbeAvailable,
			hub: delivered(t, 1).changed(func(h *fakeHub) { h.works[1].Status.Conditions[1].Status = metav1.ConditionFalse }),
		},
		"pods are missing": {
			reason: "Users need to know.", hub: delivered(t, 0), status: metav1.ConditionFalse, because: addonv1beta1.AddonAvailableReasonProbeUnavailable,
		},
		"a bad edit of an installation that runs": {
			reason: "The edit reaches no cluster.", hub: delivered(t, 1).carries(activatorManifest), invalid: true,
			status: metav1.ConditionTrue, because: addonv1beta1.AddonAvailableReasonProbeAvailable,
		},
		"a bad edit, and pods are missing": {
			reason: "The payload says what should run.", hub: delivered(t, 0).carries(activatorManifest), invalid: true,
			status: metav1.ConditionFalse, because: addonv1beta1.AddonAvailableReasonProbeUnavailable,
		},
		"a bad edit, and a workload has no report": {
			reason: "The payload says what should run.", hub: delivered(t, 1).carries(activatorManifest, webhookManifest), invalid: true,
			status: metav1.ConditionFalse, because: addonv1beta1.AddonAvailableReasonProbeUnavailable,
		},
		"nothing is delivered": {
			reason: "It is on its way.", hub: delivered(t, 1).changed(func(h *fakeHub) { h.works = h.works[:1] }),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonWorkNotFound,
		},
		"the probe has reported another owner": {
			reason: "Somebody else's Knative is not the add-on's.",
			hub: newHub().with(probeWork(t, "h2", map[string]string{"AppliedBy": "abc"})).changed(func(h *fakeHub) {
				h.addOn.Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: metav1.ConditionFalse}}
			}),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonWorkNotFound,
		},
		"the agent has said nothing": {
			reason: "It is on its way.", hub: delivered(t, 1).changed(func(h *fakeHub) { h.works[1].Status = workv1.ManifestWorkStatus{} }),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonWorkNotApply,
		},
		"the agent has said nothing of workloads": {
			reason: "It is on its way.", hub: delivered(t, 1).changed(func(h *fakeHub) { h.works[1].Status.ResourceStatus.Manifests = nil }),
			status: metav1.ConditionUnknown, because: addonv1beta1.AddonAvailableReasonNoProbeResult,
		},
		"the cluster is unreachable": {
			reason: "OCM says Unknown of all its add-ons.", hub: delivered(t, 1).unreachable(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := rolling()
			if err != nil {
				t.Fatal(err)
			}
			s := &scope{component: api.Serving, addon: tc.hub.addOn, cluster: tc.hub.cluster, payloads: tc.hub.works[1:]}
			if tc.invalid {
				b = nil
			}
			got, err := determineAvailable(s, b)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case got == nil && tc.status != "", got != nil && (got.Status != tc.status || got.Reason != tc.because || got.Message == ""):
				t.Errorf("%s It is %+v, want %s %s", tc.reason, got, tc.status, tc.because)
			}
		})
	}
}
