// Copyright Contributors to the Open Cluster Management project

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Knative's webhooks write the rules of their configurations when the webhooks start, and the API server asks no webhook without
// rules: a resource of a user that arrives earlier is stored without validation and without defaults. A policy for each of the two
// configurations therefore refuses resources of users as long as the configuration has no rules. Only the webhook writes the rules, and
// only the add-on writes the policy. A policy without its configuration permits everything: an administrator who removes Knative by hand
// must not be stopped by a policy that is left.

// startPolicyPrefix begins the names of a policy and its binding; the name of the webhook configuration follows.
const startPolicyPrefix = "started."

// addStartPolicies adds a policy and its binding for the mutating and for the validating webhook configuration of the component.
func addStartPolicies(d *draft) error {
	rules := d.userResourceRules()
	if len(rules) == 0 {
		return nil
	}
	group := "serving.knative.dev"
	if d.component == api.Eventing {
		group = "eventing.knative.dev"
	}
	for _, c := range []struct{ kind, name string }{
		{"MutatingWebhookConfiguration", "webhook." + group}, {"ValidatingWebhookConfiguration", "validation.webhook." + group},
	} {
		if d.hasObject(ObjectID{Group: groupAdmission, Kind: c.kind, Name: c.name}) {
			d.addObject(d.startPolicy(c.kind, c.name, rules))
			d.addObject(d.startPolicyBinding(c.name))
		}
	}
	return nil
}

func (d *draft) startPolicy(kind, configuration string, rules []any) *unstructured.Unstructured {
	u := d.newPolicyObject("ValidatingAdmissionPolicy", configuration)
	u.Object["spec"] = map[string]any{
		"failurePolicy":    "Fail",
		"paramKind":        map[string]any{"apiVersion": groupAdmission + "/v1", "kind": kind},
		"matchConstraints": map[string]any{"resourceRules": rules},
		"matchConditions": []any{
			map[string]any{"name": "not-by-knative", "expression": fmt.Sprintf("!request.userInfo.username.startsWith('system:serviceaccount:%s:')", d.namespace)},
			map[string]any{"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"},
		},
		"validations": []any{map[string]any{
			"expression": "params.webhooks.all(w, has(w.rules) && size(w.rules) > 0)",
			"message":    fmt.Sprintf("Knative's webhook %s has not started on this cluster: try again in a few seconds", configuration),
		}},
	}
	return u
}

func (d *draft) startPolicyBinding(configuration string) *unstructured.Unstructured {
	u := d.newPolicyObject("ValidatingAdmissionPolicyBinding", configuration)
	u.Object["spec"] = map[string]any{
		"policyName":        startPolicyPrefix + configuration,
		"paramRef":          map[string]any{"name": configuration, "parameterNotFoundAction": "Allow"},
		"validationActions": []any{"Deny"},
	}
	return u
}

func (d *draft) newPolicyObject(kind, configuration string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupAdmission + "/v1", "kind": kind,
		"metadata": map[string]any{"name": startPolicyPrefix + configuration, "labels": map[string]any{nameLabel: string(d.component)}},
	}}
}

// userResourceRules returns a rule for each API group of the bundle's CRDs whose resources users write, sorted. Knative's internal groups
// have other writers: Knative's controllers, and the work agent, which delivers Images and Certificates before a webhook runs.
func (d *draft) userResourceRules() []any {
	resources := map[string][]string{}
	for _, u := range d.objects {
		if !isCRD(u) {
			continue
		}
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural")
		if strings.HasSuffix(group, ".knative.dev") && !strings.Contains(group, "internal.") {
			resources[group] = append(resources[group], plural)
		}
	}
	var out []any
	for _, group := range slices.Sorted(maps.Keys(resources)) {
		slices.Sort(resources[group])
		plurals := make([]any, 0, len(resources[group]))
		for _, plural := range slices.Compact(resources[group]) {
			plurals = append(plurals, plural)
		}
		out = append(out, map[string]any{
			"apiGroups": []any{group}, "apiVersions": []any{"*"}, "operations": []any{"CREATE", "UPDATE"}, "resources": plurals,
		})
	}
	return out
}

// hasObject reports whether the draft contains the object.
func (d *draft) hasObject(id ObjectID) bool {
	return slices.ContainsFunc(d.objects, func(o *unstructured.Unstructured) bool { return objectIDOf(o) == id })
}

// addObject adds an object, unless the user's manifests contain the object.
func (d *draft) addObject(u *unstructured.Unstructured) {
	if !d.hasObject(objectIDOf(u)) {
		d.objects = append(d.objects, u)
	}
}
