// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// valueFleet is a fleet whose clusters have one configuration that uses values of theirs.
type valueFleet struct {
	*harness.Fleet
	hub dynamic.Interface
}

// deploymentConfigs is the resource of AddOnDeploymentConfigs.
func deploymentConfigs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "addondeploymentconfigs"}
}

// TestValues gives two clusters one configuration that uses a label, a claim and a variable, and changes them.
func TestValues(t *testing.T) {
	startRestStory(t)
	v := valueFleet{Fleet: ownFleet(t, lab.Options{ManagedClusters: 2, StatusSyncInterval: statusSync})}
	var err error
	if v.hub, err = dynamic.NewForConfig(v.Hub.Config); err != nil {
		t.Fatal(err)
	}
	one, two := v.Managed[0], v.Managed[1]
	createServing(t, v.Fleet, "valued", map[string]any{
		"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
		"config": map[string]any{
			"network":  map[string]any{"ingress-class": "kourier.ingress.networking.knative.dev"},
			"features": map[string]any{"where": "$(cluster.labels.region)/$(cluster.claims.zone)/$(cluster.variables.tier) $$(cluster.name)"},
		},
	})
	v.createDeploymentConfig(t, "gold", map[string]any{"nodePlacement": map[string]any{"nodeSelector": map[string]any{"kubernetes.io/os": "linux"}}})
	v.createDeploymentConfig(t, "silver", map[string]any{})
	v.setRegionLabel(t, one, "eu")
	v.setZoneClaim(t, one, "1")
	v.setZoneClaim(t, two, "2")
	if err := v.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{one.Name, two.Name}); err != nil {
		t.Fatal(err)
	}
	v.configureAddOn(t, one, "gold")
	v.configureAddOn(t, two, "silver")

	v.has(t, one, "eu/1/gold $(cluster.name)")
	v.awaitMissingValue(t, two, "$(cluster.labels.region)")
	v.setRegionLabel(t, two, "us")
	v.has(t, two, "us/2/silver $(cluster.name)")
	available(t, v.Fleet, []api.Component{api.Serving}, one, two)
	eventually(t, "the activator of "+one.Name+" goes to selected nodes", time.Minute, func(context.Context) error { // after the ConfigMap
		if got := v.nodeSelectorOf(t, one); got["kubernetes.io/os"] != "linux" { //nolint:contextcheck // the function uses the context of the test
			return fmt.Errorf("the activator goes to nodes with %v", got)
		}
		return nil
	})
	if got := v.nodeSelectorOf(t, two); len(got) > 0 {
		t.Errorf("the activator of %s goes to nodes with %v", two.Name, got)
	}

	t.Run("a changed label changes the cluster of the label only", func(t *testing.T) {
		other := workGenerations(t, v.Fleet, two)
		v.setRegionLabel(t, one, "asia")
		v.has(t, one, "asia/1/gold $(cluster.name)")
		if now := workGenerations(t, v.Fleet, two); !maps.Equal(now, other) {
			t.Errorf("the works of the other cluster went from %v to %v", other, now)
		}
	})
	t.Run("a changed ClusterClaim changes the cluster of the claim", func(t *testing.T) {
		v.setZoneClaim(t, two, "3")
		v.has(t, two, "us/3/silver $(cluster.name)")
	})
	t.Run("a missing value is reported, and the installation stays", func(t *testing.T) {
		before := workGenerations(t, v.Fleet, one)
		v.setRegionLabel(t, one, "")
		v.awaitMissingValue(t, one, "$(cluster.labels.region)")
		eventually(t, "the configuration names the cluster", time.Minute, func(ctx context.Context) error {
			u, err := v.hub.Resource(api.Serving.Resource()).Namespace(harness.Namespace).Get(ctx, "valued", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if text := fmt.Sprint(u.Object["status"]); !strings.Contains(text, api.ReasonValueMissing) || !strings.Contains(text, one.Name) {
				return fmt.Errorf("its status is %s", text)
			}
			return nil
		})
		if now := workGenerations(t, v.Fleet, one); !maps.Equal(now, before) {
			t.Errorf("works went from %v to %v", before, now)
		}
		v.has(t, one, "asia/1/gold $(cluster.name)")
		v.setRegionLabel(t, one, "eu")
		v.has(t, one, "eu/1/gold $(cluster.name)")
		available(t, v.Fleet, []api.Component{api.Serving}, one)
	})
}

// createDeploymentConfig makes an AddOnDeploymentConfig whose variable has its name.
func (v valueFleet) createDeploymentConfig(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	spec["customizedVariables"] = []any{map[string]any{"name": "tier", "value": name}}
	_, err := v.hub.Resource(deploymentConfigs()).Namespace(harness.Namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": deploymentConfigs().GroupVersion().String(), "kind": "AddOnDeploymentConfig",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// configureAddOn gives the add-on of a cluster the configuration, and an AddOnDeploymentConfig.
func (v valueFleet) configureAddOn(t *testing.T, c *lab.Cluster, deployment string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"configs":[{"group":%q,"resource":"knativeservings","namespace":%q,"name":"valued"},{"group":%q,"resource":%q,"namespace":%q,"name":%q}]}}`,
		api.Group, harness.Namespace, deploymentConfigs().Group, deploymentConfigs().Resource, harness.Namespace, deployment)
	_, err := v.AddOns.AddonV1beta1().ManagedClusterAddOns(c.Name).Patch(
		t.Context(), api.Serving.AddOnName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// setRegionLabel sets label region of a cluster; the empty value takes it away.
func (v valueFleet) setRegionLabel(t *testing.T, c *lab.Cluster, region string) {
	t.Helper()
	value := fmt.Sprintf("%q", region)
	if region == "" {
		value = "null"
	}
	_, err := v.Clusters.ClusterV1().ManagedClusters().Patch(
		t.Context(), c.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"region":`+value+`}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// setZoneClaim sets ClusterClaim zone on a cluster.
func (v valueFleet) setZoneClaim(t *testing.T, c *lab.Cluster, value string) {
	t.Helper()
	claims := connect(t, c).dynamic.Resource(schema.GroupVersionResource{
		Group: "cluster.open-cluster-management.io", Version: "v1alpha1", Resource: "clusterclaims",
	})
	_, err := claims.Apply(t.Context(), "zone", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
		"metadata": map[string]any{"name": "zone"}, "spec": map[string]any{"value": value},
	}}, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
}

// has waits until a cluster's Knative has what the configuration asks for there.
func (v valueFleet) has(t *testing.T, c *lab.Cluster, want string) {
	t.Helper()
	s := connect(t, c)
	eventually(t, c.Name+" has "+want, 2*time.Minute, func(ctx context.Context) error {
		config, err := s.kube.CoreV1().ConfigMaps(api.Serving.InstallNamespace()).Get(ctx, "config-features", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := config.Data["where"]; got != want {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// awaitMissingValue waits until the add-on of a cluster says which value is missing.
func (v valueFleet) awaitMissingValue(t *testing.T, c *lab.Cluster, reference string) {
	t.Helper()
	eventually(t, c.Name+" lacks "+reference, 2*time.Minute, func(ctx context.Context) error {
		addOn, err := v.AddOns.AddonV1beta1().ManagedClusterAddOns(c.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := apimeta.FindStatusCondition(addOn.Status.Conditions, api.ValuesResolved)
		if condition == nil || condition.Reason != api.ReasonValueMissing || !strings.Contains(condition.Message, reference) {
			return fmt.Errorf("it says %+v", condition)
		}
		applied, err := manifestApplied(ctx, v.Fleet, c)
		if err != nil || applied.Status != metav1.ConditionFalse || !strings.Contains(applied.Message, reference) {
			return fmt.Errorf("ManifestApplied is %+v, error %w", applied, err)
		}
		return nil
	})
}

// nodeSelectorOf is the node selector of the activator on a cluster.
func (v valueFleet) nodeSelectorOf(t *testing.T, c *lab.Cluster) map[string]string {
	t.Helper()
	d, err := connect(t, c).kube.AppsV1().Deployments(api.Serving.InstallNamespace()).Get(t.Context(), "activator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template.Spec.NodeSelector
}
