// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestGate holds the states of a gate: a new gate is closed, an open gate names the configurations for OCM and for the record, a held gate only
// for the record, and the agent only reads the ConfigMap.
func TestGate(t *testing.T) {
	b, configs := bundle(t), map[string]string{"knativeservings.operator.knative.dev/fleet/default": "h1"}
	addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving", Namespace: "cluster1", UID: "u1"}}
	gate := Gate(b, addOn)
	if gate.Labels[addonv1beta1.AddonLabelKey] != addOn.Name {
		t.Errorf("a new gate has labels %v: OCM would not wait", gate.Labels)
	}
	if gate.Labels[api.FoundationLabel] == "" {
		t.Error("addon-framework would delete the gate")
	}
	if gate.OwnerReferences[0].UID != addOn.UID {
		t.Errorf("the gate is owned by %q", gate.OwnerReferences[0].UID)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(gate.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	id := gate.Spec.ManifestConfigs[0].ResourceIdentifier
	same := id.Group == "" && id.Resource == "configmaps" && u.GetKind() == "ConfigMap" && id.Namespace == u.GetNamespace() && id.Name == u.GetName()
	if !same || gate.Spec.ManifestConfigs[0].UpdateStrategy.Type != workv1.UpdateStrategyTypeReadOnly || len(gate.Spec.Workload.Manifests) != 1 {
		t.Errorf("the agent would write %s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
	}
	if namespace, name := reference(gate); namespace != b.Namespace || name != rootCertificates {
		t.Errorf("the gate refers to ConfigMap %s/%s, and would never be Available", namespace, name)
	}
	checkGate(t, "a new gate", gate, nil, nil)
	OpenGate(gate, configs)
	metav1.SetMetaDataAnnotation(&gate.ObjectMeta, api.VerifiedRenderingAnnotation, "r1")
	checkGate(t, "an open gate", gate, configs, configs)
	HoldGate(gate)
	checkGate(t, "a held gate", gate, nil, configs)
	if !IsVerified(gate, "r1") {
		t.Error("a held gate lost the record of the verification")
	}
	OpenGate(gate, configs)
	CloseGate(gate)
	checkGate(t, "a closed gate", gate, nil, nil)
	if IsVerified(gate, "r1") {
		t.Error("a closed gate keeps the record of a verification")
	}
}

// checkGate compares the configurations that a gate names for OCM, and that the gate records as running.
func checkGate(t *testing.T, what string, gate *workv1.ManifestWork, forOCM, running map[string]string) {
	t.Helper()
	if diff := cmp.Diff(forOCM, ConfigsOf(gate)); diff != "" {
		t.Errorf("%s names other configurations for OCM (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(running, RunningConfigs(gate)); diff != "" {
		t.Errorf("%s records other configurations (-want +got):\n%s", what, diff)
	}
}

// TestRestoreGate holds how changed gates, and gates of earlier managers, become gates with label and reference.
func TestRestoreGate(t *testing.T) {
	const key = "knativeservings.operator.knative.dev/fleet/default"
	b, resource := bundle(t), types.NamespacedName{Namespace: "fleet", Name: "default"}
	h0, h1 := map[string]string{key: "h0"}, map[string]string{key: "h1"}
	for name, tc := range map[string]struct {
		change                func(gate *workv1.ManifestWork)
		wantForOCM, wantSaved map[string]string
	}{
		"unchanged": {func(*workv1.ManifestWork) {}, h1, h1},
		"no label": {
			func(gate *workv1.ManifestWork) { delete(gate.Labels, addonv1beta1.AddonLabelKey) }, h1, h1,
		},
		"held, without label": {
			func(gate *workv1.ManifestWork) {
				HoldGate(gate)
				delete(gate.Labels, addonv1beta1.AddonLabelKey)
			}, nil, h1,
		},
		"label of another add-on": {
			func(gate *workv1.ManifestWork) { gate.Labels[addonv1beta1.AddonLabelKey] = "other" }, h1, h1,
		},
		"another install namespace": {
			func(gate *workv1.ManifestWork) { gate.Spec = referenceSpec("former", rootCertificates) }, h1, h1,
		},
		"open gate of an earlier manager": {
			func(gate *workv1.ManifestWork) {
				delete(gate.Labels, addonv1beta1.AddonLabelKey)
				metav1.SetMetaDataAnnotation(&gate.ObjectMeta, api.RunningConfigsAnnotation, ConfigsText(h0))
			}, h1, h1,
		},
		"open gate of a much earlier manager, with another reference": {
			func(gate *workv1.ManifestWork) {
				delete(gate.Labels, addonv1beta1.AddonLabelKey)
				delete(gate.Annotations, api.RunningConfigsAnnotation)
				gate.Spec = referenceSpec(b.Namespace, gate.Name)
			}, h1, h1,
		},
		"closed gate of an earlier manager": {
			func(gate *workv1.ManifestWork) { gate.Spec = referenceSpec(b.Namespace, gate.Name) }, nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := Gate(b, &addonv1beta1.ManagedClusterAddOn{})
			OpenGate(gate, h1)
			tc.change(gate)
			RestoreGate(gate, b)
			checkGate(t, "the gate", gate, tc.wantForOCM, tc.wantSaved)
			if runs := RunsSpec(gate, nil, api.Serving, resource, "h1"); runs != (tc.wantSaved != nil) {
				t.Errorf("the gate records the spec: %t", runs)
			}
			namespace, name := reference(gate)
			if gate.Labels[addonv1beta1.AddonLabelKey] != "knative-serving" || namespace != b.Namespace || name != rootCertificates {
				t.Errorf("the gate has labels %v and refers to ConfigMap %s/%s", gate.Labels, namespace, name)
			}
		})
	}
}

// TestRunsSpec holds that a payload of another spec contradicts the record of the gate.
func TestRunsSpec(t *testing.T) {
	resource := types.NamespacedName{Namespace: "fleet", Name: "default"}
	of := func(hash string) *workv1.ManifestWork {
		w := Gate(bundle(t), &addonv1beta1.ManagedClusterAddOn{})
		OpenGate(w, map[string]string{ConfigKey(api.Serving, resource): hash})
		return w
	}
	for name, tc := range map[string]struct {
		payloads []*workv1.ManifestWork
		want     bool
	}{
		"no payload":                 {nil, true},
		"a payload of the spec":      {[]*workv1.ManifestWork{of("h1")}, true},
		"a payload of another spec":  {[]*workv1.ManifestWork{of("h2")}, false},
		"a half of another delivery": {[]*workv1.ManifestWork{of("h1"), of("h2")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RunsSpec(of("h1"), tc.payloads, api.Serving, resource, "h1"); got != tc.want {
				t.Errorf("the cluster runs the spec: %t, want %t", got, tc.want)
			}
			if RunsSpec(of("h1"), tc.payloads, api.Serving, resource, "h3") {
				t.Error("the cluster runs a spec that the gate does not record")
			}
		})
	}
}

func TestDelivered(t *testing.T) {
	of := func(hash string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: hash}}}
	}
	for name, tc := range map[string]struct {
		payloads []*workv1.ManifestWork
		want     map[string]string
	}{
		"nothing":           {},
		"one":               {payloads: []*workv1.ManifestWork{of(`{"a":"1"}`)}, want: map[string]string{"a": "1"}},
		"two alike":         {payloads: []*workv1.ManifestWork{of(`{"a":"1"}`), of(`{"a":"1"}`)}, want: map[string]string{"a": "1"}},
		"half of a change":  {payloads: []*workv1.ManifestWork{of(`{"a":"1"}`), of(`{"a":"2"}`)}},
		"one says nothing":  {payloads: []*workv1.ManifestWork{of(`{"a":"1"}`), {}}},
		"it cannot be read": {payloads: []*workv1.ManifestWork{of("1")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Delivered(tc.payloads)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
