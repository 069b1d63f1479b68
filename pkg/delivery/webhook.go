// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsWebhookConfiguration reports whether the object configures admission webhooks.
func IsWebhookConfiguration(u *unstructured.Unstructured) bool {
	return u.GetKind() == "MutatingWebhookConfiguration" || u.GetKind() == "ValidatingWebhookConfiguration"
}

// WebhookNames returns the names of the webhooks in a webhook configuration; no names for another kind.
func WebhookNames(u *unstructured.Unstructured) []string {
	if !IsWebhookConfiguration(u) {
		return nil
	}
	var out []string
	webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for _, w := range webhooks {
		if webhook, ok := w.(map[string]any); ok {
			if name, ok := webhook["name"].(string); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// IsUnanswered reports whether a request failed because one of the webhooks did not respond. A webhook that denies a request has
// responded. The API server reports the difference only in the text.
func IsUnanswered(cause string, webhooks []string) bool {
	return slices.ContainsFunc(webhooks, func(name string) bool {
		return strings.Contains(cause, fmt.Sprintf("failed calling webhook %q", name))
	})
}

// IsNamespaceTerminating reports whether a request failed because the namespace of the object is being deleted. A work agent reports
// only the text.
func IsNamespaceTerminating(cause string) bool {
	return strings.Contains(cause, "because it is being terminated")
}
