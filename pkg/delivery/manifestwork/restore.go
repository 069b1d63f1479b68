// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A payload that is orphaned during its removal would keep its webhook configurations and lose the webhooks: the cluster
// would refuse every write that a webhook has to judge. Therefore the payload gets its webhooks back, or configurations
// that ignore failures.

// WebhooksStopped reports whether the removal of the payload has begun: the webhooks are being stopped, or have left the
// payload.
func WebhooksStopped(payload *workv1.ManifestWork) (bool, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return false, err
	}
	return reportsOwners(payload) || slices.ContainsFunc(carriedWebhooks(objects), func(c carriedWebhook) bool { return c.replicas == 0 }), nil
}

// HasRemovalBegun reports whether the work agent removes the payload, or has reported that the webhooks stop.
func HasRemovalBegun(payload *workv1.ManifestWork) (bool, error) {
	if payload.DeletionTimestamp != nil {
		return HasAgent(payload), nil
	}
	stopped, err := WebhooksStopped(payload)
	return stopped && observedBy(payload, workv1.WorkApplied), err
}

// RestoreWebhooks returns the payload with the webhooks of the bundle; nil if the bundle lacks a webhook.
func RestoreWebhooks(payload *workv1.ManifestWork, b *render.Bundle) (*workv1.ManifestWork, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return nil, err
	}
	deployments := webhooksOf(b)
	for _, d := range deployments {
		if indexOf(objects, d) < 0 {
			objects = append(objects, d.Unstructured)
		}
	}
	out := payload.DeepCopy()
	for _, c := range carriedWebhooks(objects) { // only the webhooks that this payload calls, one of several payloads
		i := slices.IndexFunc(deployments, func(d render.Object) bool { return indexOf([]*unstructured.Unstructured{c.object}, d) == 0 })
		if i < 0 {
			return nil, nil
		}
		manifest := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: deployments[i].JSON}}
		if c.index < len(payload.Spec.Workload.Manifests) {
			out.Spec.Workload.Manifests[c.index] = manifest
		} else {
			out.Spec.Workload.Manifests = append(out.Spec.Workload.Manifests, manifest)
		}
	}
	out.Spec.ManifestConfigs = slices.DeleteFunc(out.Spec.ManifestConfigs, reportsOwner)
	return out, nil
}

// webhooksOf returns the workloads of the bundle that answer webhooks.
func webhooksOf(b *render.Bundle) []render.Object {
	var out []render.Object
	for _, w := range b.Workloads {
		for _, o := range b.Payload {
			if w.Webhook && o.GetKind() == w.Kind && o.GetNamespace() == w.Namespace && o.GetName() == w.Name {
				out = append(out, o)
			}
		}
	}
	return out
}

func indexOf(objects []*unstructured.Unstructured, o render.Object) int {
	return slices.IndexFunc(objects, func(u *unstructured.Unstructured) bool {
		return u.GetKind() == o.GetKind() && u.GetNamespace() == o.GetNamespace() && u.GetName() == o.GetName()
	})
}

// IgnoreWebhookFailures returns the payload with webhook configurations that ignore an unanswered webhook.
func IgnoreWebhookFailures(payload *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return nil, err
	}
	out := payload.DeepCopy()
	for i, u := range objects {
		if !delivery.IsWebhookConfiguration(u) {
			continue
		}
		ignoreFailures(u)
		if out.Spec.Workload.Manifests[i].Raw, err = json.Marshal(u.Object); err != nil {
			return nil, fmt.Errorf("cannot encode %s %q: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return out, nil
}
