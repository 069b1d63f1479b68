// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// TestGate holds the two states of a gate: OCM waits for a labelled gate, whose ConfigMap does not exist, and a gate at rest is Available.
func TestGate(t *testing.T) {
	b, configs := bundle(t), map[string]string{"knativeservings.operator.knative.dev/fleet/default": "h1"}
	addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving", Namespace: "cluster1", UID: "u1"}}
	gate := Gate(b, addOn, configs)
	if !IsClosed(gate) || gate.Labels[addonv1beta1.AddonLabelKey] != addOn.Name {
		t.Errorf("it is made with labels %v: OCM would not wait", gate.Labels)
	}
	if gate.Labels[api.FoundationLabel] == "" {
		t.Error("addon-framework would delete it")
	}
	if diff := cmp.Diff(configs, ConfigsOf(gate)); diff != "" {
		t.Errorf("it speaks of other configurations (-want +got):\n%s", diff)
	}
	if gate.OwnerReferences[0].UID != addOn.UID {
		t.Errorf("it is owned by %q", gate.OwnerReferences[0].UID)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(gate.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	id := gate.Spec.ManifestConfigs[0].ResourceIdentifier
	same := id.Group == "" && id.Resource == "configmaps" && u.GetKind() == "ConfigMap" && id.Namespace == u.GetNamespace() && id.Name == u.GetName()
	if !same || gate.Spec.ManifestConfigs[0].UpdateStrategy.Type != workv1.UpdateStrategyTypeReadOnly || len(gate.Spec.Workload.Manifests) != 1 {
		t.Errorf("the agent would bring %s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
	}
	OpenGate(gate, b)
	if IsClosed(gate) || !HasGateReference(gate, b) {
		t.Error("the gate does not open")
	}
	if _, name := reference(gate); name != rootCertificates {
		t.Errorf("an open gate refers to ConfigMap %q, which no namespace has: the work would never be Available", name)
	}
	if gate.Spec.ManifestConfigs[0].UpdateStrategy.Type != workv1.UpdateStrategyTypeReadOnly {
		t.Error("the agent would write the ConfigMap")
	}
	moved := *b
	moved.Namespace = "team-serving"
	if HasGateReference(gate, &moved) {
		t.Error("an open gate may stay in the former install namespace, which somebody may delete")
	}
	metav1.SetMetaDataAnnotation(&gate.ObjectMeta, api.VerifiedRenderingAnnotation, "r1")
	CloseGate(gate, b)
	if IsVerified(gate, "r1") {
		t.Error("a gate that closes keeps the record of a verification")
	}
	if !IsClosed(gate) || !HasGateReference(gate, b) || ConfigsOf(gate) != nil {
		t.Errorf("a gate that closes has spec %+v and names configurations %v", gate.Spec, ConfigsOf(gate))
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

func TestRuns(t *testing.T) {
	rolledOut := map[string]int64{
		generationValue: 2, observedValue: 2, desiredValue: 1, totalValue: 1, updatedValue: 1, availableValue: 1,
	}
	stuck := map[string]int64{
		generationValue: 2, observedValue: 2, desiredValue: 1, totalValue: 2, updatedValue: 1, availableValue: 1,
	}
	complete := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: "cleanup"},
		Conditions:   []metav1.Condition{{Type: jobFinishedCondition, Status: metav1.ConditionTrue}},
	}
	for name, tc := range map[string]struct {
		reason  string
		payload func(b *render.Bundle) []workv1.ManifestCondition
		want    bool
	}{
		"everything runs": {
			reason: "There is nothing more to wait for.", want: true,
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), complete, looked(b)}
			},
		},
		"old pods serve": {
			reason: "The Deployment is Available, and its new pods are not.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", stuck), complete, looked(b)}
			},
		},
		"the Job is running": {
			reason: "It may fail.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), looked(b)}
			},
		},
		"an object was refused": {
			reason: "The cluster does not have what it should.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), complete, looked(b), notApplied("ConfigMap", ns, "config", "denied")}
			},
		},
		"what was there before ran": {
			reason: "The agent has not looked since it has applied the bundle.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", rolledOut), complete}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			b.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook"}}
			b.Jobs = []workload.JobRef{{Namespace: ns, Name: "cleanup"}}
			d := deliver(t, b)
			report(d.payloads[0], tc.payload(b)...)
			if got := Runs(b, d.foundation, d.payloads); got != tc.want {
				t.Errorf("%s Runs is %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	running := map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 1, totalValue: 1, updatedValue: 1, availableValue: 1}
	starting := map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 1, totalValue: 1, updatedValue: 1}
	lost := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Namespace: ns, Name: "config"}, Conditions: []metav1.Condition{gone},
	}
	removedJob := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: "cleanup"}, Conditions: []metav1.Condition{gone},
	}
	for name, tc := range map[string]struct {
		reason  string
		payload func(b *render.Bundle) []workv1.ManifestCondition
		want    []string
		unseen  bool
	}{
		"runs": {
			reason: "There is nothing to say.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", running), looked(b)}
			},
		},
		"a Job was removed": {
			reason: "It goes when it has finished.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", running), removedJob}
			},
		},
		"pods are starting": {
			reason: "The message names what is waited for.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", starting)}
			},
			want: []string{"Deployment " + ns + "/webhook: 0 of 1 pods are available"},
		},
		"a ConfigMap is gone": {
			reason: "Knative does not work without its objects.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus("webhook", running), lost}
			},
			want: []string{"ConfigMap " + ns + "/config: it is gone"},
		},
		"nothing is reported": {
			reason: "It is not known to be bad.", payload: func(*render.Bundle) []workv1.ManifestCondition { return nil },
			want: []string{"Deployment " + ns + "/webhook: not seen yet"}, unseen: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			b.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook"}}
			d := deliver(t, b)
			report(d.payloads[0], tc.payload(b)...)
			got, ok := Health(b.Workloads, d.payloads)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok == tc.unseen {
				t.Errorf("%s Something was seen: %v (-want +got):\n%s", tc.reason, ok, diff)
			}
		})
	}
}
