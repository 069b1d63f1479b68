// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// TestDetermineOwnership holds whose an installation is taken for.
func TestDetermineOwnership(t *testing.T) {
	there := map[string]string{}
	applied := map[string]string{"AppliedBy": "abc-addon-knative-serving-deploy-0"}
	direct := map[string]string{"Direct": "knative-serving", "AppliedBy": "abc-addon-knative-serving-deploy-0"}
	for name, tc := range map[string]struct {
		reason  string
		works   []*workv1.ManifestWork
		bundle  func() (*render.Bundle, error)
		adopted bool
		clear   bool
		refusal string
		says    []string
	}{
		"no probe has reported": {reason: "Nothing is known."},
		"free":                  {reason: "Nobody has the component.", works: []*workv1.ManifestWork{probeWork(t, "", nil)}, clear: true},
		"free elsewhere": {
			reason: "It is to go to another namespace by now.", works: []*workv1.ManifestWork{probeWork(t, "", nil)},
			bundle: func() (*render.Bundle, error) {
				b, err := servingBundle()
				b.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: "elsewhere", Name: "activator"}}
				return b, err
			},
		},
		"installed": {reason: "It is ours.", works: []*workv1.ManifestWork{foundationWork()}, clear: true},
		"left by this hub": {
			reason: "The agent's role says whose it was.", works: []*workv1.ManifestWork{probeWork(t, hubUID, there)}, clear: true,
		},
		"applied for this hub": {
			reason: "A cluster that was detached and joins again.", works: []*workv1.ManifestWork{probeWork(t, hubUID, applied)}, clear: true,
		},
		"applied for another hub": {
			reason: "Both would write.", works: []*workv1.ManifestWork{probeWork(t, "h2", applied)},
			refusal: api.ReasonTargetConflict, says: []string{"UID h2", "abc-addon", "Deployment knative-serving/activator", api.AdoptAnnotation},
		},
		"applied for another hub with an older add-on": {
			reason: "Its role says nothing.", works: []*workv1.ManifestWork{probeWork(t, "", applied)},
			refusal: api.ReasonTargetConflict, says: []string{"another hub or another ManifestWork"},
		},
		"written directly": {
			reason: "Also where this hub's agent had it before.", works: []*workv1.ManifestWork{probeWork(t, hubUID, direct)},
			refusal: api.ReasonTargetConflict, says: []string{"Direct delivery"},
		},
		"left by another hub": {
			reason: "Nobody has it any more.", works: []*workv1.ManifestWork{probeWork(t, "h2", there)},
			refusal: api.ReasonExistingInstallation, says: []string{"Deployment knative-serving/activator", "stays unchanged", api.AdoptAnnotation},
		},
		"somebody else's": {
			reason: "It is left alone.", works: []*workv1.ManifestWork{probeWork(t, "", there)}, refusal: api.ReasonExistingInstallation,
		},
		"somebody else's, to be taken over": {
			reason: "It is asked for.", works: []*workv1.ManifestWork{probeWork(t, "", there)}, adopted: true, clear: true,
		},
		"somebody else's, in another namespace": {
			reason: "The cluster would have two.", works: []*workv1.ManifestWork{boundProbeWork(t, "elsewhere")},
			refusal: api.ReasonExistingInstallation, says: []string{`"elsewhere"`, "ClusterRoleBinding binding", api.InstallNamespaceAnnotation, api.AdoptAnnotation},
		},
		"somebody else's, in another namespace, to be taken over": {
			reason: "The cluster would have two.", works: []*workv1.ManifestWork{boundProbeWork(t, "elsewhere")}, adopted: true,
			refusal: api.ReasonExistingInstallation, says: []string{`"elsewhere"`, api.InstallNamespaceAnnotation},
		},
		"only a binding is left": {
			reason: "That is no installation.", works: []*workv1.ManifestWork{boundProbeWork(t, "knative-serving")}, clear: true,
		},
		"only a role is left of another hub": {
			reason: "That is no installation.", works: []*workv1.ManifestWork{probeWork(t, "h2", nil)}, clear: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{component: api.Serving, hub: hubUID, namespace: clusterName, addon: newHub().addOn}
			if len(tc.works) > 0 {
				s.foundation = tc.works[0]
			}
			if tc.bundle == nil {
				tc.bundle = servingBundle
			}
			b, err := tc.bundle()
			if err != nil {
				t.Fatal(err)
			}
			got := (&Reconciler{Permissions: permits{adopts: tc.adopted}}).determineOwnership(s, b)
			if got.Clear != tc.clear || (got.Refusal == nil) != (tc.refusal == "") {
				t.Fatalf("%s got clear %t and refusal %v", tc.reason, got.Clear, got.Refusal)
			}
			if got.Refusal != nil {
				mustRefuse(t, got.Refusal, tc.refusal, append(tc.says, clusterName))
			}
		})
	}
}

// boundProbeWork is a probe that found a ClusterRoleBinding alone, which names a ServiceAccount of the namespace.
func boundProbeWork(t *testing.T, namespace string) *workv1.ManifestWork {
	t.Helper()
	w := probeWork(t, "", nil)
	w.Status.ResourceStatus.Manifests[0] = workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ClusterRoleBinding", Name: "binding"},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}},
		StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
			{Name: "Namespace", Value: workv1.FieldValue{Type: workv1.String, String: &namespace}},
		}},
	}
	return w
}

func mustRefuse(t *testing.T, got *resolve.Result, reason string, says []string) {
	t.Helper()
	if got.Target != nil || got.Reason != reason {
		t.Errorf("got %+v", got)
	}
	for _, want := range says {
		if !strings.Contains(got.Message, want) {
			t.Errorf("%q is not in %q", want, got.Message)
		}
	}
}

// TestOwnershipOfNamespaces holds that a namespace that the cluster had before is entered only with permission, unless the namespace
// is the component's own.
func TestOwnershipOfNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		reason    string
		namespace string
		// found is who created the namespace on the cluster; nil where the namespace does not exist.
		found   map[string]string
		refuses bool
		clear   bool
	}{
		"a new namespace":               {reason: "Nobody else has it.", namespace: "payroll", refuses: true, clear: true},
		"a namespace that was there":    {reason: "It is somebody's.", namespace: "payroll", found: map[string]string{}, refuses: true},
		"with permission":               {reason: "The administrator trusts the resource.", namespace: "payroll", found: map[string]string{}, clear: true},
		"one that this hub has made":    {reason: "An earlier installation of it is left.", namespace: "payroll", found: map[string]string{"CreatedBy": hubUID}, refuses: true, clear: true},
		"one that another hub has made": {reason: "It is not ours.", namespace: "payroll", found: map[string]string{"CreatedBy": "h2"}, refuses: true},
		"the default namespace":         {reason: "Knative belongs there.", namespace: "knative-serving", found: map[string]string{}, refuses: true, clear: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := servingBundle()
			if err != nil {
				t.Fatal(err)
			}
			b.Namespace = tc.namespace
			namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": tc.namespace}}}
			b.Foundation = []render.Object{{Unstructured: namespace, Orphan: true}}
			probe, err := manifestwork.Probe(b, newHub().addOn)
			if err != nil {
				t.Fatal(err)
			}
			probe.Status = probeWork(t, "", nil).Status
			m := workv1.ManifestCondition{
				ResourceMeta: workv1.ManifestResourceMeta{Kind: "Namespace", Name: tc.namespace},
				Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}},
			}
			if tc.found == nil {
				m.Conditions[0].Status, m.Conditions[0].Reason = metav1.ConditionFalse, "ResourceNotAvailable"
			}
			for k, v := range tc.found {
				m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{Name: k, Value: workv1.FieldValue{String: &v}})
			}
			probe.Status.ResourceStatus.Manifests = append(probe.Status.ResourceStatus.Manifests, m)
			s := &scope{component: api.Serving, hub: hubUID, namespace: clusterName, addon: newHub().addOn, foundation: probe}
			got := (&Reconciler{Permissions: permits{refuses: tc.refuses}}).determineOwnership(s, b)
			if got.Clear != tc.clear || (got.Refusal == nil) != tc.clear {
				t.Fatalf("%s got clear %t and refusal %v", tc.reason, got.Clear, got.Refusal)
			}
			if got.Refusal != nil {
				mustRefuse(t, got.Refusal, api.ReasonEscalationNotPermitted, []string{clusterName, "payroll", api.InstallNamespaceAnnotation, "rendering.trustedNamespaces"})
			}
		})
	}
}

// TestOwnershipAfterMove holds that an installation does not move into a namespace that the probe has not reported on.
func TestOwnershipAfterMove(t *testing.T) {
	for name, tc := range map[string]struct {
		reason    string
		namespace string
		refuses   bool
		clear     bool
	}{
		"it stays":                  {reason: "The foundation has brought the namespace.", namespace: "team-knative", refuses: true, clear: true},
		"it moves to the default":   {reason: "Knative belongs there.", namespace: "knative-serving", refuses: true, clear: true},
		"it moves":                  {reason: "Who knows whose the namespace is.", namespace: "payroll", refuses: true},
		"it moves, with permission": {reason: "The administrator trusts the resource.", namespace: "payroll", clear: true},
	} {
		t.Run(name, func(t *testing.T) {
			foundation := foundationWork()
			foundation.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-knative"}}`),
			}}}
			h := newHub().with(foundation, payload())
			h.permits.refuses = tc.refuses
			h.bundles = func() (*render.Bundle, error) {
				b, err := servingBundle()
				b.Namespace = tc.namespace
				return b, err
			}
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if written := len(h.updated) > 0; written != tc.clear {
				t.Errorf("%s asked is %q", tc.reason, h.actions)
			}
			if h.triggered != tc.clear {
				t.Errorf("%s the payload may follow: %t", tc.reason, h.triggered)
			}
		})
	}
}
