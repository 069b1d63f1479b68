// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// pauseRest is how long a paused cluster must stay as it is: a repair takes a fraction of it.
const pauseRest = 5 * time.Second

func (l localInstalls) pauses(t *testing.T) {
	l.patch(t, "first", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{api.PausedAnnotation: "true"}}, "spec": map[string]any{"version": "1.22"},
	})
	l.awaitPaused(t)
	l.restingSpecs(t) // an earlier stage has recreated everything
	config := l.kube.CoreV1().ConfigMaps("knative-serving")
	_, err := config.Patch(t.Context(), "config-network", types.MergePatchType, []byte(`{"data":{"ingress-class":"istio.ingress.networking.knative.dev"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.kube.RbacV1().ClusterRoles().Delete(t.Context(), "knative-serving-core", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	readSpecs := func() map[string]string {
		out := specs(t, l.spoke)
		delete(out, "clusterroles /knative-serving-admin") // the hub aggregates the rules of the deleted ClusterRole in it, at any time
		return out
	}
	before := readSpecs()
	time.Sleep(pauseRest)
	if diff := cmp.Diff(before, readSpecs()); diff != "" {
		t.Errorf("written during a pause:\n%s", diff)
	}
	l.awaitPaused(t)
	if s, err := l.read(t.Context(), api.Serving, "first"); err != nil || !strings.HasPrefix(s.version, "1.23.") {
		t.Errorf("status.version is %q (%v)", s.version, err)
	}

	l.patch(t, "first", map[string]any{"spec": map[string]any{"version": "1.23"}})
	l.annotate(t, "first", api.PausedAnnotation, "false")
	eventually(t, "what was changed is undone", time.Minute, func(ctx context.Context) error {
		if _, err := l.kube.RbacV1().ClusterRoles().Get(ctx, "knative-serving-core", metav1.GetOptions{}); err != nil {
			return err
		}
		m, err := config.Get(ctx, "config-network", metav1.GetOptions{})
		if err == nil && m.Data["ingress-class"] != "kourier.ingress.networking.knative.dev" {
			err = fmt.Errorf("it says %q", m.Data["ingress-class"])
		}
		return err
	})
	l.ready(t, api.Serving, "first")
	l.pauseRemoval(t)
}

func (l localInstalls) awaitPaused(t *testing.T) {
	t.Helper()
	l.becomes(t, api.Serving, "first", conditionState{api.InstallSucceeded, metav1.ConditionUnknown, api.ReasonPaused},
		fmt.Sprintf(`paused by annotation %s of KnativeServing "knative-serving/first"`, api.PausedAnnotation))
}

// pauseRemoval deletes a paused resource, which is removed when the pause ends, and recreates the resource for later stages.
func (l localInstalls) pauseRemoval(t *testing.T) {
	l.annotate(t, "first", api.PausedAnnotation, "true")
	l.ready(t, api.Serving, "first")
	before := l.restingSpecs(t)
	l.delete(t, "first")
	l.becomes(t, api.Serving, "first", conditionState{api.Ready, metav1.ConditionUnknown, api.ReasonRemoving},
		"nothing is removed from the hub", api.PausedAnnotation)
	time.Sleep(pauseRest)
	if diff := cmp.Diff(before, specs(t, l.spoke)); diff != "" {
		t.Errorf("written during a pause:\n%s", diff)
	}
	l.patch(t, "first", map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.PausedAnnotation: nil}}})
	l.gone(t, api.Serving, "first")
	l.awaitRemoved(t)
	l.own(t, "first", kourier())
	l.ready(t, api.Serving, "first")
}
