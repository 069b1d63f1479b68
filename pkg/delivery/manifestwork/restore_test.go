// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// bundleOf is what the manifests were rendered as.
func bundleOf(t *testing.T, manifests []map[string]any) *render.Bundle {
	t.Helper()
	b := &render.Bundle{}
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		o := render.Object{Unstructured: &unstructured.Unstructured{Object: m}, JSON: raw}
		objects, b.Payload = append(objects, o.Unstructured), append(b.Payload, o)
	}
	b.Workloads = render.WorkloadsOf(objects)
	return b
}

// onTheWayOut returns a payload whose workloads are to stop, and a payload that the webhooks have left.
func onTheWayOut(t *testing.T) map[string]*workv1.ManifestWork {
	t.Helper()
	stopping := next(t, payloadWork(t, webhookManifests())).Payload
	report(stopping, stoppedStatus("webhook"), stoppedStatus("controller"))
	return map[string]*workv1.ManifestWork{"stopping": stopping, "reclaiming": next(t, stopping).Payload}
}

func TestRestored(t *testing.T) {
	whole := payloadWork(t, webhookManifests())
	if stopped, err := WorkloadsStopped(whole); stopped || err != nil {
		t.Errorf("an untouched payload counts as stopped: %t, %v", stopped, err)
	}
	for name, w := range onTheWayOut(t) {
		t.Run(name, func(t *testing.T) {
			if stopped, err := WorkloadsStopped(w); !stopped || err != nil {
				t.Errorf("stopped is %t, %v", stopped, err)
			}
			got, err := RestoreWorkloads(w, bundleOf(t, webhookManifests()), &workv1.ManifestWork{})
			if err != nil {
				t.Fatal(err)
			}
			if stopped, err := WorkloadsStopped(got); stopped || err != nil {
				t.Errorf("restored, it counts as stopped: %t, %v", stopped, err)
			}
			if got, want := manifestsByName(t, got), manifestsByName(t, whole); !cmp.Equal(got, want) {
				t.Errorf("manifests (-want +got):\n%s", cmp.Diff(want, got))
			}
			if r := next(t, got); r.Step != StopWorkloads {
				t.Errorf("a removal that restarts has step %s (%s), want %s", r.Step, r.Why, StopWorkloads)
			}
		})
	}
}

func TestNothingToRestore(t *testing.T) {
	stopping := onTheWayOut(t)["stopping"]
	if got, err := RestoreWorkloads(stopping, bundleOf(t, webhookManifests()[2:]), &workv1.ManifestWork{}); got != nil || err != nil {
		t.Errorf("a bundle without the webhook restores nothing, got %v, %v", got, err)
	}
	other := payloadWork(t, webhookManifests()[2:3])
	if got, err := RestoreWorkloads(other, bundleOf(t, webhookManifests()), &workv1.ManifestWork{}); err != nil || len(got.Spec.Workload.Manifests) != 1 {
		t.Errorf("a payload that calls no webhook gets none, got %v, %v", got, err)
	}
}

func TestUnblocked(t *testing.T) {
	for name, w := range onTheWayOut(t) {
		t.Run(name, func(t *testing.T) {
			got, err := RestoreWithoutWebhooks(w)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Spec.Workload.Manifests) != len(w.Spec.Workload.Manifests) {
				t.Errorf("it has %d manifests, want %d", len(got.Spec.Workload.Manifests), len(w.Spec.Workload.Manifests))
			}
			if replicas := replicasOf(t, got); replicas[len(replicas)-2] != -1 {
				t.Errorf("replicas are %d; the controller needs the default", replicas)
			}
			u := &unstructured.Unstructured{Object: manifestsByName(t, got)["ValidatingWebhookConfiguration/config"].(map[string]any)} //nolint:forcetypeassert // it is one
			webhooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
			if err != nil || len(webhooks) != 1 {
				t.Fatalf("webhooks are %v, %v", webhooks, err)
			}
			if policy := webhooks[0].(map[string]any)["failurePolicy"]; policy != "Ignore" { //nolint:forcetypeassert // it is one
				t.Errorf("failurePolicy is %v", policy)
			}
		})
	}
}

func manifestsByName(t *testing.T, w *workv1.ManifestWork) map[string]any {
	t.Helper()
	objects, err := manifestsOf(w)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, o := range objects {
		out[o.GetKind()+"/"+o.GetName()] = o.Object
	}
	return out
}
