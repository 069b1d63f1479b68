// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Knative's webhooks validate the ConfigMaps that the webhooks read when they start. After a loss of the workloads and the
// ConfigMaps, as with their namespace, but not of the webhook configurations, neither comes back: no workload serves the
// webhooks, so the API server refuses every ConfigMap, so no workload starts. The plan then deletes the webhook configurations,
// and applies them again in their stage.

// webhookTimeout is how long a webhook may fail to respond before the plan deletes the webhook configuration.
const webhookTimeout = 5 * time.Second

// planUnblocking plans to delete our webhook configurations if the configurations prevent the creation of an object that the
// webhooks need.
func (i *Installation) planUnblocking(all []desiredObject, a *inventory.Anchor, p *changePlan) {
	var names []string
	for _, it := range all {
		names = append(names, delivery.WebhookNames(it.Unstructured)...)
	}
	blocked := false
	for _, it := range p.apply[render.StageConfiguration] {
		f := i.failedObjects[it.id]
		blocked = blocked || f != nil && p.missing[it.id] && i.clock.Now().Sub(f.Since) >= webhookTimeout && delivery.IsUnanswered(f.Cause, names)
	}
	if !blocked {
		return
	}
	p.apply[render.StageWebhook] = nil
	for _, it := range all {
		if it.stage != render.StageWebhook {
			continue
		}
		if e, recorded := a.Items[it.id]; recorded {
			p.unblock = append(p.unblock, e)
		}
		p.apply[render.StageWebhook] = append(p.apply[render.StageWebhook], it)
	}
}

// unblockNamespace deletes our webhook configurations when the cause is the deletion of the install namespace. The deletion deletes
// the webhooks first, and a webhook that does not respond refuses the deletion of other objects in the namespace: without the
// webhook configurations the deletion ends.
func (i *Installation) unblockNamespace(ctx context.Context, b *render.Bundle, cause error) error {
	if !apierrors.HasStatusCause(cause, corev1.NamespaceTerminatingCause) {
		return nil
	}
	var batch []inventory.Item
	for _, it := range desiredObjects(b, "") {
		if it.stage == render.StageWebhook {
			batch = append(batch, it.inventoryItem())
		}
	}
	return i.deleteItems(ctx, batch, inventory.Items{})
}
