// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestStartPolicies(t *testing.T) {
	const (
		services = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: services.serving.knative.dev}\nspec: {group: serving.knative.dev, names: {plural: services}}"
		routes   = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: routes.serving.knative.dev}\nspec: {group: serving.knative.dev, names: {plural: routes}}"
		images   = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: images.caching.internal.knative.dev}\nspec: {group: caching.internal.knative.dev, names: {plural: images}}"
		foreign  = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: services.example.com}\nspec: {group: example.com, names: {plural: services}}"
		webhook  = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: webhook.serving.knative.dev}"
		config   = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: config.webhook.serving.knative.dev}"
		policy   = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: started.webhook.serving.knative.dev, labels: {app.kubernetes.io/name: knative-serving}}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration}
  matchConstraints:
    resourceRules:
    - {apiGroups: [serving.knative.dev], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [routes, services]}
  matchConditions:
  - {name: not-by-knative, expression: "!request.userInfo.username.startsWith('system:serviceaccount:knative-serving:')"}
  - {name: not-being-deleted, expression: "!has(object.metadata.deletionTimestamp)"}
  validations:
  - expression: params.webhooks.all(w, has(w.rules) && size(w.rules) > 0)
    message: "Knative's webhook webhook.serving.knative.dev has not started on this cluster: try again in a few seconds"
`
		binding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: started.webhook.serving.knative.dev, labels: {app.kubernetes.io/name: knative-serving}}
spec:
  policyName: started.webhook.serving.knative.dev
  paramRef: {name: webhook.serving.knative.dev, parameterNotFoundAction: Allow}
  validationActions: [Deny]
`
	)
	for name, tc := range map[string]struct{ in, added []string }{
		"resources of users wait for the webhook": {[]string{services, images, foreign, routes, webhook}, []string{policy, binding}},
		"a webhook for ConfigMaps has no policy":  {[]string{services, config}, nil},
		"without CRDs there is no policy":         {[]string{images, foreign, webhook}, nil},
		"a policy of the user stays":              {[]string{services, routes, webhook, strings.Replace(policy, "Fail", "Ignore", 1)}, []string{binding}},
	} {
		t.Run(name, func(t *testing.T) {
			runStep(t, addStartPolicies, draftOf(t, tc.in...), slices.Concat(tc.in, tc.added)...)
		})
	}
}

// TestStartPoliciesOfReleases holds that each component has both policies, which the cluster gets before all other objects of the payload,
// and that the webhook configurations come before the workloads.
func TestStartPoliciesOfReleases(t *testing.T) {
	for name, tc := range map[string]struct {
		component api.Component
		want      []string
	}{
		"Serving":  {api.Serving, []string{"started.validation.webhook.serving.knative.dev", "started.webhook.serving.knative.dev"}},
		"Eventing": {api.Eventing, []string{"started.validation.webhook.eventing.knative.dev", "started.webhook.eventing.knative.dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t, tc.component, "version: '1.23'")
			for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
				var got []string
				for _, o := range b.Payload {
					if o.GetKind() == kind {
						got = append(got, o.GetName())
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("objects of kind %s (-want +got):\n%s", kind, diff)
				}
			}
			checkPoliciesFirst(t, b)
			checkGuardedKinds(t, b)
		})
	}
}

func checkPoliciesFirst(t *testing.T, b *Bundle) {
	t.Helper()
	last, configuration, first, workload := -1, -1, len(b.Payload), len(b.Payload)
	for n, o := range b.Payload {
		isPolicy := strings.HasPrefix(o.GetName(), startPolicyPrefix)
		switch {
		case isPolicy:
			last = n
		case o.GroupVersionKind().Group == groupAdmission:
			configuration = n
		case o.GroupVersionKind().Group == "apps":
			workload = min(workload, n)
		}
		if !isPolicy {
			first = min(first, n)
		}
	}
	if last > first {
		t.Errorf("a policy has place %d of the payload, another object place %d", last, first)
	}
	if configuration > workload {
		t.Errorf("a webhook configuration has place %d of the payload, a workload place %d", configuration, workload)
	}
}

// checkGuardedKinds holds that the policies name no resource of the payload: the work agent delivers these before a webhook runs.
func checkGuardedKinds(t *testing.T, b *Bundle) {
	t.Helper()
	guarded := map[string]bool{}
	for _, o := range b.Payload {
		rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "matchConstraints", "resourceRules")
		for _, r := range rules {
			rule := fieldsOf(r)
			for _, group := range rule["apiGroups"].([]any) { //nolint:forcetypeassert // of this package
				guarded[stringOf(group)] = true
			}
		}
	}
	if len(guarded) == 0 {
		t.Error("no kind is guarded")
	}
	for _, o := range b.Payload {
		if guarded[o.GroupVersionKind().Group] {
			t.Errorf("%s of the payload would have to wait for a webhook", o.ID())
		}
	}
}
