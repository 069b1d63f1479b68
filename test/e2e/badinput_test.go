// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// deliverBadInput gives an add-on configurations that cannot be delivered. Each must be told in one condition, with what is
// wrong and what to do; what is delivered already stays, and other clusters are served.
func deliverBadInput(t *testing.T, f *harness.Fleet) {
	good, bad := f.Managed[0], f.Managed[1]
	enabled(t, f, []api.Component{api.Serving}, good, bad)

	for name, tc := range map[string]struct {
		config string // name of the KnativeServing
		spec   map[string]any
		want   []string
	}{
		"a version that is not bundled": {
			config: "no-such-version", spec: map[string]any{"version": "1.3"},
			want: []string{`"1.3"`, "1.23", "1.20"},
		},
		"an ingress class whose ingress is not enabled": {
			config: "no-such-ingress",
			spec: map[string]any{
				"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
				"config": map[string]any{"network": map[string]any{"ingress-class": "contour.ingress.networking.knative.dev"}},
			},
			want: []string{"contour", "spec.ingress"},
		},
		"a configuration that does not exist": {
			config: "nowhere", want: []string{"nowhere", "does not exist", "create it"},
		},
		"more than fits into a work": {
			config: "too-large",
			spec: map[string]any{
				"version": "1.23", "config": map[string]any{"features": map[string]any{"large": strings.Repeat("x", 400_000)}},
			},
			want: []string{"380000", "config-features"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := workGenerations(t, f, bad)
			if tc.spec != nil {
				createServing(t, f, tc.config, tc.spec)
			}
			setConfiguration(t, f, bad, tc.config)
			t.Cleanup(func() { setConfiguration(t, f, bad, "") })

			eventually(t, "the condition says what is wrong", time.Minute, func(ctx context.Context) error {
				c, err := manifestApplied(ctx, f, bad)
				if err != nil {
					return err
				}
				if c.Status != metav1.ConditionFalse {
					return fmt.Errorf("ManifestApplied is %s: %s", c.Status, c.Message)
				}
				for _, w := range tc.want {
					if !strings.Contains(c.Message, w) {
						return fmt.Errorf("%q is not in: %s", w, c.Message)
					}
				}
				return nil
			})
			if diff := cmp.Diff(before, workGenerations(t, f, bad)); diff != "" {
				t.Errorf("the works of %s have changed (-before +after):\n%s", bad.Name, diff)
			}
		})
	}
	t.Run("other clusters are installed at the same time", func(t *testing.T) { checkOtherClusters(t, f, good, bad) })
	eventually(t, "the add-on recovers when its configuration is right again", time.Minute, func(ctx context.Context) error {
		c, err := manifestApplied(ctx, f, bad)
		if err == nil && c.Status != metav1.ConditionTrue {
			err = fmt.Errorf("ManifestApplied is %s: %s", c.Status, c.Message)
		}
		return err
	})
}

func checkOtherClusters(t *testing.T, f *harness.Fleet, good, bad *lab.Cluster) {
	setConfiguration(t, f, bad, "nowhere")
	t.Cleanup(func() { setConfiguration(t, f, bad, "") })
	createServing(t, f, "edited", map[string]any{
		"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
		"config": map[string]any{
			"network":    map[string]any{"ingress-class": "kourier.ingress.networking.knative.dev"},
			"autoscaler": map[string]any{"stable-window": "77s"},
		},
	})
	setConfiguration(t, f, good, "edited")
	t.Cleanup(func() { setConfiguration(t, f, good, "") })
	s := connect(t, good)
	eventually(t, "an edit reaches "+good.Name, time.Minute, func(ctx context.Context) error {
		cm, err := s.kube.CoreV1().ConfigMaps("knative-serving").Get(ctx, "config-autoscaler", metav1.GetOptions{})
		if err == nil && cm.Data["stable-window"] != "77s" {
			err = fmt.Errorf("stable-window is %q", cm.Data["stable-window"])
		}
		return err
	})
}

func createServing(t *testing.T, f *harness.Fleet, name string, spec map[string]any) {
	t.Helper()
	client, err := dynamic.NewForConfig(f.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	servings := client.Resource(api.Serving.Resource()).Namespace(harness.Namespace)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := servings.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servings.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// setConfiguration makes a KnativeServing the configuration of the add-on on a cluster; "" means the default again.
func setConfiguration(t *testing.T, f *harness.Fleet, c *lab.Cluster, serving string) {
	t.Helper()
	configs := "[]"
	if serving != "" {
		configs = fmt.Sprintf(`[{"group":%q,"resource":"knativeservings","namespace":%q,"name":%q}]`, api.Group, harness.Namespace, serving)
	}
	_, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(c.Name).Patch(context.WithoutCancel(t.Context()), api.Serving.AddOnName(),
		types.MergePatchType, []byte(`{"spec":{"configs":`+configs+`}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func manifestApplied(ctx context.Context, f *harness.Fleet, c *lab.Cluster) (metav1.Condition, error) {
	addOn, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(c.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
	if err != nil {
		return metav1.Condition{}, err
	}
	cond := apimeta.FindStatusCondition(addOn.Status.Conditions, addonv1beta1.ManagedClusterAddOnManifestApplied)
	if cond == nil {
		return metav1.Condition{}, fmt.Errorf("add-on %q has no condition ManifestApplied", addOn.Name)
	}
	return *cond, nil
}

// workGenerations are the works of Serving on a cluster with their generations, which change with every change of their spec.
func workGenerations(t *testing.T, f *harness.Fleet, c *lab.Cluster) map[string]int64 {
	t.Helper()
	settled(t, f, api.Serving, c)
	works, err := f.ComponentWorks(t.Context(), api.Serving, c.Name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, w := range works {
		out[w.Name] = w.Generation
	}
	return out
}
