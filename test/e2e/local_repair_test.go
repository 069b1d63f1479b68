// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// anchorOfFirst is the ConfigMap that owns the objects of resource "first".
const anchorOfFirst = "knativeserving-first-root-owner"

// listOwned lists the objects of the install namespace that the anchor owns, sorted. An error means that the anchor does not exist, or
// that an object has another owner.
func (l localInstalls) listOwned(ctx context.Context) ([]string, error) {
	anchor, err := l.kube.CoreV1().ConfigMaps("knative-serving").Get(ctx, anchorOfFirst, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		objects, err := l.listed(ctx, gvr)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			o := &objects[i]
			if o.GetNamespace() != "knative-serving" || len(o.GetOwnerReferences()) == 0 {
				continue
			}
			if !isOwnedBy(o, anchor) {
				return nil, fmt.Errorf("%s %s has the owners %v", gvr.Resource, o.GetName(), o.GetOwnerReferences())
			}
			out = append(out, gvr.Resource+" "+o.GetName())
		}
	}
	slices.Sort(out)
	return out, nil
}

func (l localInstalls) repairChanges(t *testing.T) {
	deployments := l.kube.AppsV1().Deployments("knative-serving")
	roles := l.kube.RbacV1().ClusterRoles()
	config := l.kube.CoreV1().ConfigMaps("knative-serving")
	var owned []string
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
			func(ctx context.Context) error { return l.scale(ctx, "autoscaler", 0) },
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
			func(ctx context.Context) (err error) {
				if owned, err = l.listOwned(ctx); err != nil {
					return err
				}
				return config.Delete(ctx, anchorOfFirst, metav1.DeleteOptions{})
			},
			func(ctx context.Context) error {
				now, err := l.listOwned(ctx)
				if err != nil {
					return err
				}
				if diff := cmp.Diff(owned, now); diff != "" { // the garbage collector deletes one object after another
					return fmt.Errorf("objects of the anchor (-before +now):\n%s", diff)
				}
				d, err := deployments.Get(ctx, "activator", metav1.GetOptions{})
				if err == nil && d.Status.AvailableReplicas != 1 {
					err = errors.New("Deployment activator is not available")
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
