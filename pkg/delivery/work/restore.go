// Copyright Contributors to the Open Cluster Management project

package work

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// A payload that is given up on its way out would keep its webhook configurations and lose what answers them: nobody could
// write there any more. So it gets its webhooks back, or configurations that let everything pass.

// WebhooksStopped tells that the removal of the payload has begun: its webhooks are being stopped, or have left it.
func WebhooksStopped(payload *workv1.ManifestWork) (bool, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return false, err
	}
	return looksAtOwners(payload) || slices.ContainsFunc(carriedWebhooks(objects), func(c carriedWebhook) bool { return c.replicas == 0 }), nil
}

// Restored is the payload with its webhooks as the bundle has them, nil if the bundle lacks one.
func Restored(payload *workv1.ManifestWork, b *render.Bundle) (*workv1.ManifestWork, error) {
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
	for _, c := range carriedWebhooks(objects) { // those that this payload calls: there may be several payloads
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
	out.Spec.ManifestConfigs = slices.DeleteFunc(out.Spec.ManifestConfigs, looksAtOwner)
	return out, nil
}

// webhooksOf are the workloads of the bundle that answer webhooks.
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

// Unblocked is the payload with webhook configurations that let pass what no webhook answers. Knative never writes that
// field.
func Unblocked(payload *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return nil, err
	}
	out := payload.DeepCopy()
	for i, u := range objects {
		if kind := u.GetKind(); kind != "MutatingWebhookConfiguration" && kind != "ValidatingWebhookConfiguration" {
			continue
		}
		webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
		for _, w := range webhooks {
			if webhook, ok := w.(map[string]any); ok {
				webhook["failurePolicy"] = "Ignore"
			}
		}
		u.Object["webhooks"] = webhooks
		if out.Spec.Workload.Manifests[i].Raw, err = json.Marshal(u.Object); err != nil {
			return nil, fmt.Errorf("cannot encode %s %q: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return out, nil
}
