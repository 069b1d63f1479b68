// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// withoutWebhook is a spec of Serving with which Knative's webhook does not start: its Deployment has no replicas, and no autoscaler.
func withoutWebhook() map[string]any {
	patch := func(apiVersion, kind, patchType, content string) map[string]any {
		return map[string]any{
			"target": map[string]any{"apiVersion": apiVersion, "kind": kind, "name": "webhook", "namespace": servingNamespace},
			"patch":  map[string]any{"type": patchType, "content": content},
		}
	}
	spec := kourier()
	spec["patches"] = []any{
		patch("autoscaling/v2", "HorizontalPodAutoscaler", "strategic", "$patch: delete"),
		patch("apps/v1", "Deployment", "merge", "spec: {replicas: 0}"),
	}
	return spec
}

// withWebhook is a merge patch after which the webhook starts.
const withWebhook = `{"spec":{"patches":null}}`

// TestStartOfWebhooks installs Serving without a running webhook. The clusters refuse Services of users until the webhook has started, and
// accept what Knative writes, and the end of a deletion.
func TestStartOfWebhooks(t *testing.T) {
	startRestStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync, ResyncInterval: resync}, harness.Options{})
	pulled, direct := p.Managed[0], p.Spokes[0]
	p.token(t, direct.Name, direct, direct.Credential.Token)
	p.apply(t, api.Serving, direct.Name, withoutWebhook())
	patch, err := json.Marshal(map[string]any{"spec": withoutWebhook()})
	if err != nil {
		t.Fatal(err)
	}
	p.patchDefault(t, string(patch))
	if err := p.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{pulled.Name}); err != nil {
		t.Fatal(err)
	}
	t.Run("a managed cluster refuses resources until the webhooks run", func(t *testing.T) {
		s := connect(t, pulled)
		s.refuseUntilStart(t)
		p.patchDefault(t, withWebhook)
		s.acceptAfterStart(t)
		available(t, p.Fleet, []api.Component{api.Serving}, pulled)
	})
	t.Run("a cluster without a work agent refuses resources until the webhooks run", func(t *testing.T) {
		s := connect(t, direct)
		s.refuseUntilStart(t)
		_, err := p.resources(api.Serving).Patch(t.Context(), direct.Name, types.MergePatchType, []byte(withWebhook), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.acceptAfterStart(t)
		p.ready(t, api.Serving, direct.Name)
	})
}

// startPolicyRefusal is part of the error of an API server whose policy awaits the start of Knative's webhooks.
const startPolicyRefusal = "ValidatingAdmissionPolicy 'started."

// refuseUntilStart holds that the cluster, after the first refusal, refuses every Service of a user for three seconds, and accepts the
// writes of Knative's controllers.
func (s spoke) refuseUntilStart(t *testing.T) {
	t.Helper()
	refuse := func(ctx context.Context) error {
		_, err := s.knativeServices().Create(ctx, newService("early"), dryRunCreate())
		if err == nil || !strings.Contains(err.Error(), startPolicyRefusal) {
			return fmt.Errorf("a Service of a user: %w", errors.Join(err, errors.New("want a refusal by policy")))
		}
		return nil
	}
	eventually(t, "the cluster refuses a Service of a user", time.Minute, refuse)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := refuse(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:knative-serving:controller", Groups: []string{"system:masters"}}
	own := *s.Cluster
	own.Config = config
	ended := newService("ended")
	ended.SetFinalizers([]string{"example.com/user"})
	if _, err := connect(t, &own).knativeServices().Create(t.Context(), ended, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a write of Knative's controller: %v", err)
	}
	if err := s.knativeServices().Delete(t.Context(), "ended", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.knativeServices().Patch(t.Context(), "ended", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Errorf("the finalizer of a deleted Service cannot be removed: %v", err)
	}
}

// acceptAfterStart waits until the cluster accepts a Service of a user, and holds that Knative's webhook has judged the Service.
func (s spoke) acceptAfterStart(t *testing.T) {
	t.Helper()
	var accepted *unstructured.Unstructured
	eventually(t, "the cluster accepts a Service of a user", 2*time.Minute, func(ctx context.Context) error {
		var err error
		accepted, err = s.knativeServices().Create(ctx, newService("late"), dryRunCreate())
		return err
	})
	if accepted.GetAnnotations()["serving.knative.dev/creator"] == "" {
		t.Error("the cluster has accepted a Service without Knative's webhook")
	}
}

func dryRunCreate() metav1.CreateOptions {
	return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
}

// newService returns a Service of a user.
func newService(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "hello"}}}}},
	}}
}
