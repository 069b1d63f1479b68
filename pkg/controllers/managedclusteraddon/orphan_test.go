// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

const (
	webhookService = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"webhook","namespace":"n"},"spec":{"selector":{"a":"b"}}}`
	webhookConfig  = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"config"},` +
		`"webhooks":[{"name":"config","clientConfig":{"service":{"name":"webhook","namespace":"n"}}}]}`
	webhookDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"webhook","namespace":"n"},` +
		`"spec":{"replicas":2,"template":{"metadata":{"labels":{"a":"b"}}}}}`
)

// TestForceOrphanOnTheWayOut holds that a removal which is given up leaves no webhook configurations behind that nobody
// answers for.
func TestForceOrphanOnTheWayOut(t *testing.T) {
	bundle := &render.Bundle{Component: api.Serving, FoundationDigest: "d1"}
	for _, raw := range []string{webhookService, webhookConfig, webhookDeployment} {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		bundle.Payload = append(bundle.Payload, render.Object{Unstructured: u, JSON: []byte(raw)})
	}
	bundle.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: "n", Name: "webhook", Webhook: true}}
	stopped := payload()
	stopped.Finalizers = []string{workv1.ManifestWorkFinalizer}
	for _, raw := range []string{webhookService, webhookConfig, strings.Replace(webhookDeployment, `"replicas":2`, `"replicas":0`, 1)} {
		stopped.Spec.Workload.Manifests = append(stopped.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
	}
	foundation := manifestwork.Orphaned(foundationWork())
	foundation.Annotations[api.DigestAnnotation] = "d1"
	for name, tc := range map[string]struct {
		reason  string
		bundles bundlesFunc
		want    string
	}{
		"what was delivered can be rendered": {
			reason: "The webhooks run again.", want: `"replicas":2`,
			bundles: func() (*render.Bundle, error) { return bundle, nil },
		},
		"something else is rendered": {
			reason: "It was never on the cluster.", want: `"failurePolicy":"Ignore"`,
			bundles: func() (*render.Bundle, error) {
				return &render.Bundle{FoundationDigest: "d2", Workloads: bundle.Workloads}, nil
			},
		},
		"nothing can be rendered": {
			reason: "It does not keep the add-on.", want: `"failurePolicy":"Ignore"`,
			bundles: func() (*render.Bundle, error) { return nil, errors.New("no") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub().allowed().annotated(api.ForceOrphanAnnotation, "true").with(stopped, foundation)
			h.bundles = tc.bundles
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if len(h.updated) != 1 || !manifestwork.IsOrphaned(h.updated[0]) {
				t.Fatalf("%s updated: %v", tc.reason, h.updated)
			}
			if !slices.ContainsFunc(h.updated[0].Spec.Workload.Manifests, func(m workv1.Manifest) bool { return strings.Contains(string(m.Raw), tc.want) }) {
				t.Errorf("%s It has no %s: %s", tc.reason, tc.want, h.updated[0].Spec.Workload.Manifests)
			}
		})
	}
	t.Run("it is still being rendered", func(t *testing.T) {
		h := newHub().allowed().annotated(api.ForceOrphanAnnotation, "true").with(stopped, foundation)
		h.bundles = func() (*render.Bundle, error) {
			return nil, &render.Error{Reason: api.FaultRenderPending, Message: "wait"}
		}
		if err := h.reconcile(t); err != nil || len(h.actions) > 0 {
			t.Errorf("the webhooks can soon be restored: %q, error %v", h.actions, err)
		}
	})
}
