// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// deliverable returns the facts of a cluster that may get the payload of testBundle with the configuration "h1".
func deliverable(t *testing.T) DeliveryInput {
	t.Helper()
	b, err := testBundle()
	if err != nil {
		t.Fatal(err)
	}
	return DeliveryInput{
		Component: api.Serving, Target: resolve.Result{Target: &resolve.Target{ManagedCluster: "cluster1"}}, Bundle: b,
		Ownership: Ownership{Clear: true}, Foundation: foundation(), Gate: openGate("h1"), Configs: configuredBy("h1").Status.ConfigReferences,
	}
}

// otherRendering returns a payload of the configuration "h1" that another manager has rendered.
func otherRendering() *workv1.ManifestWork {
	mark := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"knative-serving","name":"knative-serving-bundle-ffffffffffff"}}`
	out := &workv1.ManifestWork{Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{
		{RawExtension: runtime.RawExtension{Raw: []byte(mark)}},
	}}}}
	configs := agentdeploy.ConfigsToMap(configuredBy("h1").Status.ConfigReferences)
	out.Annotations = map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: manifestwork.ConfigsText(configs)}
	return out
}

func TestDetermineDelivery(t *testing.T) {
	pending := &render.Error{Reason: api.FaultRenderPending, Message: "is being rendered"}
	invalid := &render.Error{Reason: api.ReasonInvalidSpec, Message: "bad spec"}
	refused := Ownership{Refusal: &resolve.Result{Reason: api.ReasonTargetConflict, Message: "another hub has it"}}
	const foundationWork = `ManifestWork "knative-serving-foundation", which carries the CRDs`
	const gateWork = `nothing new is delivered yet: waiting for ManifestWork "knative-serving-gate" `
	for name, tc := range map[string]struct {
		reason string
		change func(in *DeliveryInput)
		want   DeliveryDecision
	}{
		"everything is there": {
			reason: "The gate is open for the configuration.", change: func(*DeliveryInput) {}, want: DeliveryDecision{State: Deliverable},
		},
		"the gate is closed": {
			reason: "OCM waits for the cluster.", change: func(in *DeliveryInput) { in.Gate = closedGate() },
			want: DeliveryDecision{State: Deliverable},
		},
		"the bundle is being rendered, and the add-on is paused": {
			reason: "What is known of the add-on is incomplete.", change: func(in *DeliveryInput) { in.Bundle, in.Fault, in.PausedBy = nil, pending, "somebody" },
			want: DeliveryDecision{Rendering, api.FaultRenderPending, "is being rendered"},
		},
		"paused, and the target is not resolved": {
			reason: "A paused cluster keeps its works whatever else is wrong.", change: func(in *DeliveryInput) { *in = DeliveryInput{PausedBy: "somebody"} },
			want: DeliveryDecision{Paused, api.ReasonPaused, "paused by somebody"},
		},
		"the target is not resolved, and the configuration is invalid": {
			reason: "No configuration reaches the cluster.",
			change: func(in *DeliveryInput) {
				in.Target, in.Bundle, in.Fault = resolve.Result{Reason: api.ReasonReferenceNotPermitted, Message: "no set is bound"}, nil, invalid
			},
			want: DeliveryDecision{Unresolved, api.ReasonReferenceNotPermitted, "nothing new is delivered: ReferenceNotPermitted: no set is bound"},
		},
		"the cluster is unreachable": {
			reason: "The agent applies the works when the cluster is back.", change: func(in *DeliveryInput) { in.Target.Reason = api.ReasonManagedClusterUnavailable },
			want: DeliveryDecision{State: Deliverable},
		},
		"the configuration is invalid, and another hub owns the component": {
			reason: "There is no bundle to deliver.", change: func(in *DeliveryInput) { in.Bundle, in.Fault, in.Ownership = nil, invalid, refused },
			want: DeliveryDecision{InvalidConfiguration, api.ReasonInvalidSpec, "bad spec"},
		},
		"the cluster is being detached": {
			reason: "OCM removes the works with the cluster.", change: func(in *DeliveryInput) { in.Detaching, in.Ownership = true, refused },
			want: DeliveryDecision{Detaching, "", "the cluster is being detached from the hub"},
		},
		"another hub owns the component": {
			reason: "Both would write.", change: func(in *DeliveryInput) { in.Ownership = refused },
			want: DeliveryDecision{Refused, api.ReasonTargetConflict, "another hub has it"},
		},
		"nothing is written yet": {
			reason: "The probe comes first.", change: func(in *DeliveryInput) { in.Ownership, in.Foundation = Ownership{}, nil },
			want: DeliveryDecision{Probing, "", "nothing is delivered before the probe reports whether the cluster has knative-serving"},
		},
		"the probe has not reported": {
			reason: "Nobody knows the owner.",
			change: func(in *DeliveryInput) {
				in.Ownership = Ownership{}
				delete(in.Foundation.Annotations, api.DigestAnnotation)
			},
			want: DeliveryDecision{Probing, "", "nothing is delivered before the probe reports whether the cluster has knative-serving"},
		},
		"the probe has reported a free cluster": {
			reason: "The foundation replaces the probe.", change: func(in *DeliveryInput) { delete(in.Foundation.Annotations, api.DigestAnnotation) },
			want: DeliveryDecision{AwaitingFoundation, "", "waiting for " + foundationWork + ", to be created"},
		},
		"the foundation does not exist": {
			reason: "The payload needs the CRDs.", change: func(in *DeliveryInput) { in.Foundation = nil },
			want: DeliveryDecision{AwaitingFoundation, "", "waiting for " + foundationWork + ", to be created"},
		},
		"the foundation has another version": {
			reason: "The payload needs the CRDs of its version.", change: func(in *DeliveryInput) { in.Foundation.Annotations[api.DigestAnnotation] = "d1" },
			want: DeliveryDecision{AwaitingFoundation, "", "waiting for " + foundationWork + ", to be updated to version 1.23.0"},
		},
		"the foundation is not applied, and there is no gate": {
			reason: "The foundation comes first.", change: func(in *DeliveryInput) { in.Foundation.Generation, in.Gate = 2, nil },
			want: DeliveryDecision{AwaitingFoundation, "", "waiting for " + foundationWork + ": the work agent has not applied the work yet"},
		},
		"the cluster has another rendering, and its turn has not come": {
			reason: "A new manager must not change every cluster at once.",
			change: func(in *DeliveryInput) { in.Payloads, in.Gate = []*workv1.ManifestWork{otherRendering()}, nil },
			want: DeliveryDecision{
				AwaitingTurn, api.ReasonRenderingWaits,
				"rendering ffffffffffff runs, and rendering " + deliverable(t).Bundle.RenderingName() + " waits for the turn of the cluster",
			},
		},
		"the cluster has another rendering, and the turn has come": {
			reason: "The gate is open for the configuration, which stays the same.",
			change: func(in *DeliveryInput) {
				in.Payloads = []*workv1.ManifestWork{otherRendering()}
				in.Foundation.Annotations[api.RenderingTurnAnnotation] = in.Bundle.RenderingName()
			},
			want: DeliveryDecision{State: Deliverable},
		},
		"the gate does not exist": {
			reason: "OCM would take the cluster for complete.", change: func(in *DeliveryInput) { in.Gate = nil },
			want: DeliveryDecision{AwaitingGate, "", gateWork + "to be created"},
		},
		"the gate is being deleted": {
			reason: "The next gate comes when this gate is gone.", change: func(in *DeliveryInput) { leaving(in.Gate) },
			want: DeliveryDecision{AwaitingGate, "", gateWork + "to be recreated"},
		},
		"the gate is open for another configuration": {
			reason: "OCM waits for the cluster.", change: func(in *DeliveryInput) { in.Configs = configuredBy("h2").Status.ConfigReferences },
			want: DeliveryDecision{State: Deliverable},
		},
		"the gate is open and has no label, as the gate of an earlier manager": {
			reason: "OCM would take the cluster for complete.", change: func(in *DeliveryInput) { unlabelled(in.Gate) },
			want: DeliveryDecision{AwaitingGate, "", gateWork + "to have OCM's label"},
		},
		"the gate is open for the configuration, and the payload has another": {
			reason: "OCM would take the cluster for complete.",
			change: func(in *DeliveryInput) {
				in.Payloads = []*workv1.ManifestWork{payloadOf("addon-knative-serving-deploy-0", "h2")}
			},
			want: DeliveryDecision{AwaitingGate, "", gateWork + "to be closed: the cluster gets a former configuration again"},
		},
		"the gate is held with the record of the configuration, and the payload has another": {
			reason: "The controller would open the gate by a report on the former objects.",
			change: func(in *DeliveryInput) {
				manifestwork.HoldGate(in.Gate)
				in.Payloads = []*workv1.ManifestWork{payloadOf("addon-knative-serving-deploy-0", "h2")}
			},
			want: DeliveryDecision{AwaitingGate, "", gateWork + "to be closed: the cluster gets a former configuration again"},
		},
		"the gate is open for the configuration, and only one of two payloads has the configuration": {
			reason: "OCM would take the cluster for complete.",
			change: func(in *DeliveryInput) {
				in.Payloads = []*workv1.ManifestWork{payloadOf("addon-knative-serving-deploy-0", "h1"), payloadOf("addon-knative-serving-deploy-1", "h2")}
			},
			want: DeliveryDecision{AwaitingGate, "", gateWork + "to be closed: the cluster gets a former configuration again"},
		},
		"the gate is closed, and the payload has another configuration": {
			reason: "OCM waits for the cluster.",
			change: func(in *DeliveryInput) {
				in.Gate, in.Payloads = closedGate(), []*workv1.ManifestWork{payloadOf("addon-knative-serving-deploy-0", "h2")}
			},
			want: DeliveryDecision{State: Deliverable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := deliverable(t)
			tc.change(&in)
			if diff := cmp.Diff(tc.want, DetermineDelivery(in)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOwnershipOf(t *testing.T) {
	probe := foundation()
	delete(probe.Annotations, api.DigestAnnotation)
	if OwnershipOf(nil).Clear || OwnershipOf(probe).Clear || !OwnershipOf(foundation()).Clear {
		t.Error("only a foundation of a bundle proves ownership")
	}
}
