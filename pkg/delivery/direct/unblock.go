// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Knative's webhooks judge the ConfigMaps that they read when they start. Where both are lost, as with their namespace, and
// the webhook configurations are not, neither comes back: nobody answers, so no ConfigMap can be made, so nobody starts.
// Then the webhook configurations go, and come again in their stage.

// blockedFor is how long a webhook of ours may not answer before its configuration is taken for the cause.
const blockedFor = 5 * time.Second

// unblock plans to take our webhook configurations away if they keep an object from being made that their webhooks need.
func (i *Installation) unblock(all []item, a *anchor, p *plan) {
	names := webhookNames(all)
	blocked := false
	for _, it := range p.apply[configStage] {
		f := i.failing[it.id]
		blocked = blocked || f != nil && p.missing[it.id] && i.clock.Now().Sub(f.Since) >= blockedFor && unanswered(f.Cause, names)
	}
	if !blocked {
		return
	}
	p.apply[webhookStage] = nil
	for _, it := range all {
		if it.stage != webhookStage {
			continue
		}
		if e, recorded := a.inventory[it.id]; recorded {
			p.unblock = append(p.unblock, e)
		}
		p.apply[webhookStage] = append(p.apply[webhookStage], it)
	}
}

// webhookNames are the names of the webhooks in all webhook configurations.
func webhookNames(all []item) []string {
	var out []string
	for _, it := range all {
		if it.stage != webhookStage {
			continue
		}
		webhooks, _, _ := unstructured.NestedSlice(it.Unstructured.Object, "webhooks")
		for _, w := range webhooks {
			if m, ok := w.(map[string]any); ok {
				if name, ok := m["name"].(string); ok {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// unanswered tells that a request failed because one of the webhooks did not answer; one that says no has answered. The API
// server reports it in words only.
func unanswered(cause string, webhooks []string) bool {
	for _, name := range webhooks {
		if strings.Contains(cause, fmt.Sprintf("failed calling webhook %q", name)) {
			return true
		}
	}
	return false
}
