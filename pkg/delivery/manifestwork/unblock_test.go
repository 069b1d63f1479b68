// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// blockedBundle has a webhook, and the webhook configuration that refuses the ConfigMap.
func blockedBundle(t *testing.T) *render.Bundle {
	t.Helper()
	b, webhooks := bundle(t), bundleOf(t, webhookManifests())
	b.Payload, b.Workloads = append(b.Payload, webhooks.Payload...), webhooks.Workloads
	return b
}

// serving is the report on a webhook that runs.
func serving() workv1.ManifestCondition {
	return deploymentStatus("webhook", map[string]int64{
		generationValue: 1, observedValue: 1, desiredValue: 1, totalValue: 1, updatedValue: 1, availableValue: 1,
	})
}

func TestNeedsUnblocking(t *testing.T) {
	const silent = `Internal error occurred: failed calling webhook "config": service "webhook" not found`
	refused := func(message string, conditions ...metav1.Condition) workv1.ManifestCondition {
		m := notApplied("ConfigMap", ns, "config-logging", message)
		m.Conditions = append(m.Conditions, conditions...)
		return m
	}
	for name, tc := range map[string]struct {
		reason    string
		unblocked bool
		reports   []workv1.ManifestCondition
		old       bool
		want      bool
	}{
		"everything runs": {reason: "Nothing is refused.", reports: []workv1.ManifestCondition{serving()}},
		"a missing object is refused": {
			reason: "The webhook may need the object.", reports: []workv1.ManifestCondition{refused(silent, gone)}, want: true,
		},
		"the namespace is being deleted": {
			reason: "The webhook refuses the deletion of objects in the namespace.", want: true,
			reports: []workv1.ManifestCondition{refused(`forbidden: unable to create new content in namespace n because it is being terminated`, gone)},
		},
		"a change of an object is refused": {
			reason: "The webhook can start with the object.", reports: []workv1.ManifestCondition{refused(silent)},
		},
		"a webhook denies": {
			reason:  "The webhook has responded.",
			reports: []workv1.ManifestCondition{refused(`admission webhook "config" denied the request: no`, gone)},
		},
		"a webhook of another installer refuses": {
			reason:  "The bundle cannot change the webhook.",
			reports: []workv1.ManifestCondition{refused(`failed calling webhook "policy": refused`, gone)},
		},
		"an older report": {
			reason: "The agent has not applied the payload.", reports: []workv1.ManifestCondition{refused(silent, gone)}, old: true,
		},
		"unblocked, and the webhook starts": {
			reason: "A webhook that is not ready refuses everything.", unblocked: true, want: true,
			reports: []workv1.ManifestCondition{deploymentStatus("webhook", map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 1})},
		},
		"unblocked, and the agent has not applied": {
			reason: "The report is about the blocked payload.", unblocked: true, want: true, old: true,
			reports: []workv1.ManifestCondition{serving()},
		},
		"unblocked, and everything runs": {
			reason: "The webhooks respond again.", unblocked: true, reports: []workv1.ManifestCondition{serving()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := blockedBundle(t)
			d := deliver(t, b)
			if tc.unblocked {
				d.foundation.Annotations[api.UnblockedAnnotation] = "true"
				d.payloads[0].Spec.Workload.Manifests = nil
				for o := range payloadObjects(b, d.foundation) {
					d.payloads[0].Spec.Workload.Manifests = append(d.payloads[0].Spec.Workload.Manifests, manifest(o.JSON))
				}
				d.payloads[0].Spec.Workload.Manifests = append(d.payloads[0].Spec.Workload.Manifests, manifest(encodeJSON(bundleMark(b))))
			}
			report(d.payloads[0], append(tc.reports, looked(b))...)
			if tc.old {
				d.payloads[0].Generation++
			}
			if got := NeedsUnblocking(b, d.foundation, d.payloads); got != tc.want {
				t.Errorf("%s The result is %t", tc.reason, got)
			}
		})
	}
	if NeedsUnblocking(blockedBundle(t), nil, nil) {
		t.Error("a cluster without works is unblocked")
	}
}

// TestUnblockedPayload holds that the foundation decides about the webhook configurations of the payload, and that the bundle stays.
func TestUnblockedPayload(t *testing.T) {
	b, foundation := blockedBundle(t), installed()
	before := blockedBundle(t)
	foundation.Annotations = map[string]string{api.UnblockedAnnotation: "true"}
	ignoring := 0
	for o := range payloadObjects(b, foundation) {
		if bytes.Contains(o.JSON, []byte(`"failurePolicy":"Ignore"`)) {
			ignoring++
			if o.GetKind() != "ValidatingWebhookConfiguration" {
				t.Errorf("%s ignores failures", o.ID())
			}
		}
	}
	if ignoring == 0 {
		t.Error("no webhook configuration ignores failures")
	}
	if diff := cmp.Diff(before.Payload, b.Payload); diff != "" {
		t.Errorf("the bundle has changed (-before +after):\n%s", diff)
	}
	d := deliver(t, b)
	if !MatchBundle(d.payloads, b, installed()) || MatchBundle(d.payloads, b, foundation) {
		t.Error("a payload that blocks is taken for the unblocked payload")
	}
	unblocked := &workv1.ManifestWork{}
	for _, raw := range PayloadObjects(b, foundation) {
		unblocked.Spec.Workload.Manifests = append(unblocked.Spec.Workload.Manifests, manifest(raw))
	}
	if IgnoresFailures(nil) || IgnoresFailures(d.payloads) || !IgnoresFailures([]*workv1.ManifestWork{unblocked}) {
		t.Error("the unblocked payload is not told from a payload that blocks")
	}
	if IgnoresFailures(append(d.payloads, unblocked)) {
		t.Error("a payload with a webhook that refuses requests is taken for the unblocked payload")
	}
}
