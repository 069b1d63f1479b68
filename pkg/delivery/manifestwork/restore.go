// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A payload that is orphaned during its removal would keep workloads without replicas, and webhook configurations without
// webhooks: the cluster would refuse every write that a webhook has to judge. Therefore the payload gets its workloads back, or
// configurations that ignore failures.

// WorkloadsStopped reports whether the removal of the payload has begun: the workloads are being stopped, or the webhooks have
// left the payload.
func WorkloadsStopped(payload *workv1.ManifestWork) (bool, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return false, err
	}
	carried := carriedWorkloads(payload, objects)
	stopsWebhook := slices.ContainsFunc(webhooksAmong(carried), func(c carriedWorkload) bool { return !c.mayRun() })
	stopsAll := len(carried) > 0 && !slices.ContainsFunc(carried, carriedWorkload.mayRun)
	return reportsOwners(payload) || stopsWebhook || stopsAll, nil
}

// HasRemovalBegun reports whether the work agent removes the payload, or has reported that the workloads stop. The steps after the stop follow that
// report.
func HasRemovalBegun(payload *workv1.ManifestWork) (bool, error) {
	if payload.DeletionTimestamp != nil {
		return HasAgent(payload), nil
	}
	stopped, err := WorkloadsStopped(payload)
	isReported := observedBy(payload, workv1.WorkApplied) || payload.Annotations[api.StopBegunAnnotation] != "" || reportsOwners(payload)
	return stopped && isReported, err
}

// RestoreWorkloads returns the payload with the workloads and the webhook configurations that the bundle and the foundation determine;
// nil if the bundle lacks a workload.
func RestoreWorkloads(payload *workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return nil, err
	}
	workloads := workloadsOf(b)
	for _, w := range workloads {
		if indexOf(objects, w) < 0 {
			objects = append(objects, w.Unstructured)
		}
	}
	out := payload.DeepCopy()
	for _, c := range carriedWorkloads(payload, objects) {
		isMissing := c.index >= len(payload.Spec.Workload.Manifests)
		if isMissing && !c.webhook { // only webhooks leave a payload before its end; one of several payloads calls the webhook
			continue
		}
		i := slices.IndexFunc(workloads, func(w render.Object) bool { return indexOf([]*unstructured.Unstructured{c.object}, w) == 0 })
		if i < 0 {
			return nil, nil
		}
		manifest := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: workloads[i].JSON}}
		if isMissing {
			out.Spec.Workload.Manifests = append(out.Spec.Workload.Manifests, manifest)
		} else {
			out.Spec.Workload.Manifests[c.index] = manifest
		}
	}
	for o := range payloadObjects(b, foundation) {
		if i := indexOf(objects, o); i >= 0 && delivery.IsWebhookConfiguration(o.Unstructured) {
			out.Spec.Workload.Manifests[i].Raw = o.JSON
		}
	}
	out.Spec.ManifestConfigs = slices.DeleteFunc(out.Spec.ManifestConfigs, reportsOwner)
	return out, nil
}

// workloadsOf returns the objects of the bundle that are workloads.
func workloadsOf(b *render.Bundle) []render.Object {
	var out []render.Object
	for _, w := range b.Workloads {
		for _, o := range b.Payload {
			if o.GetKind() == w.Kind && o.GetNamespace() == w.Namespace && o.GetName() == w.Name {
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

// RestoreWithoutWebhooks returns the payload with webhook configurations that ignore an unanswered webhook, and with the default
// number of replicas, 1, of each other workload: the payload does not record the former number.
func RestoreWithoutWebhooks(payload *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	objects, err := manifestsOf(payload)
	if err != nil {
		return nil, err
	}
	out := payload.DeepCopy()
	encode := func(i int) error {
		raw, err := json.Marshal(objects[i].Object)
		if err != nil {
			return fmt.Errorf("cannot encode %s %q: %w", objects[i].GetKind(), objects[i].GetName(), err)
		}
		out.Spec.Workload.Manifests[i].Raw = raw
		return nil
	}
	for _, c := range carriedWorkloads(payload, objects) {
		if c.webhook || c.mayRun() {
			continue
		}
		unstructured.RemoveNestedField(c.object.Object, "spec", "replicas")
		if err := encode(c.index); err != nil {
			return nil, err
		}
	}
	for i, u := range objects {
		if !delivery.IsWebhookConfiguration(u) {
			continue
		}
		ignoreFailures(u)
		if err := encode(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}
