// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestAwaitsTurn holds which payloads stay as the payloads are until the turn of the cluster.
func TestAwaitsTurn(t *testing.T) {
	delivered := *bundle(t)
	delivered.Inputs = "inputs"
	other := delivered
	other.Digest = "0123456789abcdef"
	configs := map[string]string{"knativeservings.operator.knative.dev/fleet/default": "h1"}
	type state struct {
		bundle              *render.Bundle
		foundation, payload map[string]string
		deleted, orphaned   bool
		noMark, gone        bool
		// webhook is the failurePolicy of a webhook in the payload; empty without a webhook.
		webhook string
	}
	recorded := map[string]string{api.DigestAnnotation: "d", api.RenderingInputsAnnotation: "inputs"}
	with := func(key, value string) map[string]string {
		return map[string]string{api.DigestAnnotation: "d", api.RenderingInputsAnnotation: "inputs", key: value}
	}
	for name, tc := range map[string]struct {
		state
		want bool
	}{
		"the same rendering":                          {state{bundle: &delivered, foundation: recorded, payload: configs}, false},
		"another rendering":                           {state{bundle: &other, foundation: recorded, payload: configs}, true},
		"another rendering, inputs were not recorded": {state{bundle: &other, foundation: map[string]string{api.DigestAnnotation: "d"}, payload: configs}, true},
		"another rendering of other values":           {state{bundle: &other, foundation: with(api.RenderingInputsAnnotation, "before"), payload: configs}, false},
		"another rendering of another spec":           {state{bundle: &other, foundation: recorded, payload: map[string]string{"a": "b"}}, false},
		"the turn has come":                           {state{bundle: &other, foundation: with(api.RenderingTurnAnnotation, "0123456789ab"), payload: configs}, false},
		"the turn was for a rendering before":         {state{bundle: &other, foundation: with(api.RenderingTurnAnnotation, "ffffffffffff"), payload: configs}, true},
		"the payload is being deleted":                {state{bundle: &other, foundation: recorded, payload: configs, deleted: true}, false},
		"the payload is between two bundles":          {state{bundle: &other, foundation: recorded, payload: configs, noMark: true}, false},
		"the payload is orphaned":                     {state{bundle: &other, foundation: recorded, payload: configs, orphaned: true}, false},
		"the foundation is orphaned":                  {state{bundle: &other, foundation: with(api.OrphanedAnnotation, "true"), payload: configs}, false},
		"there is no foundation":                      {state{bundle: &other, payload: configs, gone: true}, false},
		"the webhooks refuse":                         {state{bundle: &other, foundation: recorded, payload: configs, webhook: "Fail"}, true},
		"the webhooks ignore failures":                {state{bundle: &other, foundation: recorded, payload: configs, webhook: "Ignore"}, false},
		"the webhooks are unblocked":                  {state{bundle: &other, foundation: with(api.UnblockedAnnotation, "true"), payload: configs}, false},
		"the foundation is a probe":                   {state{bundle: &other, foundation: map[string]string{}, payload: configs}, false},
	} {
		t.Run(name, func(t *testing.T) {
			payload := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				workv1.ManifestConfigSpecHashAnnotationKey: ConfigsText(tc.payload),
			}}}
			if !tc.noMark {
				payload.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: encodeJSON(bundleMark(&delivered))}}}
			}
			if tc.webhook != "" {
				payload.Spec.Workload.Manifests = append(payload.Spec.Workload.Manifests, manifest([]byte(`{"apiVersion":"admissionregistration.k8s.io/v1",`+
					`"kind":"ValidatingWebhookConfiguration","metadata":{"name":"config"},"webhooks":[{"name":"config","failurePolicy":"`+tc.webhook+`"}]}`)))
			}
			if tc.orphaned {
				payload = Orphaned(payload)
			}
			if tc.deleted {
				payload.DeletionTimestamp = &metav1.Time{}
			}
			foundation := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Annotations: tc.foundation}}
			if tc.gone {
				foundation = nil
			}
			if got := AwaitsTurn(tc.bundle, foundation, []*workv1.ManifestWork{payload}, configs); got != tc.want {
				t.Errorf("AwaitsTurn is %t, want %t", got, tc.want)
			}
		})
	}
}
