// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// Knative's webhooks validate ConfigMaps that the webhooks read when they start. A removal outside the sequence of this
// project leaves the webhook configurations behind, and the next installation waits for ever: no webhook serves, so the API
// server refuses the ConfigMaps, so no webhook starts. Therefore the payload gets webhook configurations that ignore
// failures, until the webhooks run. An annotation of the foundation holds the decision.
//
// A deletion of the install namespace deletes the webhooks first. A silent webhook then refuses the deletion of other
// objects in the namespace, so that the deletion of the namespace never ends, and the cluster refuses every new object.

// IsUnblocked reports whether the webhook configurations of the payload ignore failures.
func IsUnblocked(foundation *workv1.ManifestWork) bool {
	return foundation.Annotations[api.UnblockedAnnotation] != ""
}

// IgnoresFailures reports whether every webhook in the payloads has failurePolicy Ignore, as in the payload of an unblocked foundation; false
// without a webhook. A release of Knative has some such webhooks beside others.
func IgnoresFailures(payloads []*workv1.ManifestWork) bool {
	found := false
	for _, p := range payloads {
		for _, m := range p.Spec.Workload.Manifests {
			u := &unstructured.Unstructured{}
			if !bytes.Contains(m.Raw, []byte("WebhookConfiguration")) || u.UnmarshalJSON(m.Raw) != nil || !delivery.IsWebhookConfiguration(u) {
				continue
			}
			webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
			for _, w := range webhooks {
				if webhook, ok := w.(map[string]any); ok && webhook["failurePolicy"] != "Ignore" {
					return false
				}
				found = true
			}
		}
	}
	return found
}

// NeedsUnblocking reports whether the webhook configurations of the payload must ignore failures: from the first blocked
// object until the agent has applied the payload and the webhooks run.
func NeedsUnblocking(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) bool {
	if foundation == nil || !IsUnblocked(foundation) {
		return len(Blocked(b, payloads)) > 0
	}
	webhooks := slices.DeleteFunc(slices.Clone(b.Workloads), func(w workload.Expected) bool { return !w.Webhook })
	o := Observe(b, foundation, payloads)
	return o.Waiting != "" || len(Blocked(b, payloads)) > 0 || len(delivery.NotRolledOut(webhooks, o.Workloads)) > 0
}

// Blocked lists the objects that the cluster lacks because a webhook of the bundle does not respond, or because the
// namespace is being deleted, sorted. An object that exists keeps no webhook from its start.
func Blocked(b *render.Bundle, payloads []*workv1.ManifestWork) []string {
	var out, webhooks []string
	for _, o := range b.Payload {
		webhooks = append(webhooks, delivery.WebhookNames(o.Unstructured)...)
	}
	for _, p := range payloads {
		if !observedBy(p, workv1.WorkApplied) {
			continue
		}
		for _, m := range p.Status.ResourceStatus.Manifests {
			c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
			if isMissing(m) && c != nil && c.Status == metav1.ConditionFalse &&
				(delivery.IsUnanswered(c.Message, webhooks) || delivery.IsNamespaceTerminating(c.Message)) {
				out = append(out, objectName(m.ResourceMeta))
			}
		}
	}
	slices.Sort(out)
	return out
}

// ignoringFailures returns the webhook configuration with webhooks whose failures the API server ignores.
func ignoringFailures(o render.Object) render.Object {
	o.Unstructured = o.DeepCopy()
	ignoreFailures(o.Unstructured)
	o.JSON = encodeJSON(o.Unstructured)
	return o
}

// ignoreFailures makes a webhook configuration ignore webhooks that do not respond. Knative never writes that field.
func ignoreFailures(u *unstructured.Unstructured) {
	webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for _, w := range webhooks {
		if webhook, ok := w.(map[string]any); ok {
			webhook["failurePolicy"] = "Ignore"
		}
	}
	u.Object["webhooks"] = webhooks
}
