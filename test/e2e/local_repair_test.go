// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// checkNoRepairs holds that nothing was taken for drift so far.
func checkNoRepairs(t *testing.T, m team) {
	t.Helper()
	list, err := connect(t, m.Hub).kube.CoreV1().Events(m.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=DriftRepaired"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		t.Errorf("nobody had changed anything, and yet: %s", e.Message)
	}
}

func (l localInstalls) repairChanges(t *testing.T) {
	deployments := l.kube.AppsV1().Deployments("knative-serving")
	roles := l.kube.RbacV1().ClusterRoles()
	config := l.kube.CoreV1().ConfigMaps("knative-serving")
	for _, tc := range []struct {
		name             string
		change, restored func(ctx context.Context) error
	}{
		{
			"a deleted Deployment",
			func(ctx context.Context) error { return deployments.Delete(ctx, "autoscaler", metav1.DeleteOptions{}) },
			func(ctx context.Context) error {
				d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
				if err == nil && (d.DeletionTimestamp != nil || d.Status.AvailableReplicas != 1) {
					err = errors.New("it is not available")
				}
				return err
			},
		},
		{
			"a scaled Deployment",
			func(ctx context.Context) error {
				scale, err := deployments.GetScale(ctx, "autoscaler", metav1.GetOptions{})
				if err != nil {
					return err
				}
				scale.Spec.Replicas = 0
				_, err = deployments.UpdateScale(ctx, "autoscaler", scale, metav1.UpdateOptions{})
				return err
			},
			func(ctx context.Context) error {
				d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
				if err == nil && *d.Spec.Replicas != 1 {
					err = fmt.Errorf("it has %d replicas", *d.Spec.Replicas)
				}
				return err
			},
		},
		{
			"an edited ConfigMap",
			func(ctx context.Context) error {
				_, err := config.Patch(ctx, "config-network", types.MergePatchType, []byte(`{"data":{"ingress-class":"istio.ingress.networking.knative.dev"}}`), metav1.PatchOptions{})
				return err
			},
			func(ctx context.Context) error {
				m, err := config.Get(ctx, "config-network", metav1.GetOptions{})
				if err == nil && m.Data["ingress-class"] != "kourier.ingress.networking.knative.dev" {
					err = fmt.Errorf("it says %q", m.Data["ingress-class"])
				}
				return err
			},
		},
		{
			"a deleted ClusterRole",
			func(ctx context.Context) error {
				return roles.Delete(ctx, "knative-serving-core", metav1.DeleteOptions{})
			},
			func(ctx context.Context) error {
				_, err := roles.Get(ctx, "knative-serving-core", metav1.GetOptions{})
				return err
			},
		},
		{
			"a deleted anchor, and with it everything that it owns",
			func(ctx context.Context) error {
				return config.Delete(ctx, "knativeserving-first-root-owner", metav1.DeleteOptions{})
			},
			func(ctx context.Context) error {
				m, err := config.Get(ctx, "knativeserving-first-root-owner", metav1.GetOptions{})
				if err != nil {
					return err
				}
				d, err := deployments.Get(ctx, "activator", metav1.GetOptions{})
				if err == nil && (!isOwnedBy(d, m) || d.Status.AvailableReplicas != 1) {
					err = fmt.Errorf("Deployment activator has the owners %v", d.OwnerReferences)
				}
				return err
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			if err := tc.change(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is undone", time.Minute, tc.restored)
			t.Logf("undone after %s", time.Since(start).Round(10*time.Millisecond))
			l.ready(t, api.Serving, "first")
			t.Logf("ready after %s", time.Since(start).Round(10*time.Millisecond))
		})
	}
	event(t, l.team, "DriftRepaired")
	if strings.Contains(l.LogTail(harness.LocalInstalls), "watches are cut") {
		t.Error("the hub is listed instead of watched")
	}
}
