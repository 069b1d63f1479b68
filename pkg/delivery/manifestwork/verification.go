// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// A verification has a ManifestWork of its own, which arrives when the cluster runs the payload and leaves before the payload. The gate
// records the verified rendering. docs/design/0022-verification.md has the reasons.

// VerificationName returns the name of the work of the component's verification in the cluster's namespace.
func VerificationName(c api.Component) string { return c.AddOnName() + "-verification" }

// Names of the values that the work agent reports on the Service of a verification, besides those of workloads.
const (
	verifiesValue = "Verifies"
	readyValue    = "Ready"
	reasonValue   = "Reason"
	messageValue  = "Message"
)

// Verification returns the work with the Service that verifies the rendering on the cluster of the add-on. The work has no label of OCM:
// addon-framework would delete the work. The add-on owns the work.
func Verification(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn, rendering string) (*workv1.ManifestWork, error) {
	service, err := b.Verification.Service(rendering)
	if err != nil {
		return nil, err
	}
	ready := func(field string) string { return `.status.conditions[?(@.type=="Ready")].` + field }
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: VerificationName(b.Component), Namespace: addon.Namespace, Labels: map[string]string{api.FoundationLabel: string(b.Component)},
			OwnerReferences: ownedBy(addon),
		},
		Spec: workv1.ManifestWorkSpec{
			Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: service.JSON}}}},
			ManifestConfigs: []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{
					Group: service.Resource.Group, Resource: service.Resource.Resource, Namespace: service.GetNamespace(), Name: service.GetName(),
				},
				UpdateStrategy: forcedApply(), FeedbackScrapeType: workv1.FeedbackWatchType,
				FeedbackRules: []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
					{Name: verifiesValue, Path: ".spec.template.metadata.annotations." + strings.ReplaceAll(api.VerifiesAnnotation, ".", `\.`)},
					{Name: generationValue, Path: ".metadata.generation"},
					{Name: observedValue, Path: ".status.observedGeneration"},
					{Name: readyValue, Path: ready("status")},
					{Name: reasonValue, Path: ready("reason")},
					{Name: messageValue, Path: ready("message")},
				}}},
			}},
		},
	}, nil
}

// IsVerified reports whether the verification of the rendering has succeeded, by the record of the gate.
func IsVerified(gate *workv1.ManifestWork, rendering string) bool {
	return gate != nil && rendering != "" && gate.Annotations[api.VerifiedRenderingAnnotation] == rendering
}

// ObserveVerification returns the facts about the verification of the rendering in the works of a cluster; verification is nil when the work
// does not exist. runs reports whether the cluster runs the rendering.
func ObserveVerification(gate, verification *workv1.ManifestWork, rendering string, runs bool) *delivery.Verification {
	out := &delivery.Verification{Verified: IsVerified(gate, rendering), Runs: runs, Rendering: rendering}
	if verification == nil || verification.DeletionTimestamp != nil {
		return out
	}
	for _, m := range verification.Status.ResourceStatus.Manifests {
		if m.ResourceMeta.Name != api.VerificationServiceName || m.ResourceMeta.Kind != "Service" {
			continue
		}
		if refusal, isRefused := refusalOf(m); isRefused {
			out.Refusal = refusal
		}
		if isMissing(m) { // the values are of an earlier Service
			continue
		}
		values := m.StatusFeedbacks.Values
		out.Service = &workload.ServiceState{
			Verifies: textValue(values, verifiesValue), Generation: integerValue(values, generationValue), ObservedGeneration: integerValue(values, observedValue),
			Ready: textValue(values, readyValue), Reason: textValue(values, reasonValue), Message: textValue(values, messageValue),
		}
	}
	return out
}
