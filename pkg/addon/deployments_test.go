// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// deploymentConfig is an AddOnDeploymentConfig with one variable.
func deploymentConfig(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "AddOnDeploymentConfig",
		"metadata": map[string]any{"namespace": "fleet", "name": "infra"},
		"spec":     map[string]any{"customizedVariables": []any{map[string]any{"name": "tier", "value": value}}},
	}}
}

// deployedBy is an add-on that is to have the AddOnDeploymentConfig with a hash.
func deployedBy(a *addonv1beta1.ManagedClusterAddOn, hash string) *addonv1beta1.ManagedClusterAddOn {
	a.Status.ConfigReferences = append(a.Status.ConfigReferences, addonv1beta1.ConfigReference{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: utils.AddOnDeploymentConfigGVR.Group, Resource: utils.AddOnDeploymentConfigGVR.Resource},
		DesiredConfig: &addonv1beta1.ConfigSpecHash{
			ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "infra"}, SpecHash: hash,
		},
	})
	a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: utils.AddOnDeploymentConfigGVR.Group, Resource: utils.AddOnDeploymentConfigGVR.Resource},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "infra"},
	})
	return a
}

func deployments(tb testing.TB) (*Deployments, cache.Indexer) {
	tb.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	d, _ := recordedDeployments(indexer)
	return d, indexer
}

// recordedDeployments reads the AddOnDeploymentConfigs of the indexer as a manager that starts does, and returns the cache of revisions.
func recordedDeployments(configs cache.Indexer) (*Deployments, cache.Indexer) {
	revisions := cache.NewIndexer(cache.MetaNamespaceKeyFunc, revision.Indexers())
	return NewDeployments(cache.NewGenericLister(configs, utils.AddOnDeploymentConfigGVR.GroupResource()), revisions), revisions
}

// TestDeploymentsByHash holds that an AddOnDeploymentConfig that is edited in place reaches no cluster before its turn, also when the
// manager has started after the edit.
func TestDeploymentsByHash(t *testing.T) {
	configs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	d, revisions := recordedDeployments(configs)
	write := func(u *unstructured.Unstructured) string {
		recorded, err := revision.New(revision.DeploymentConfig{}, u, 1)
		if err := errors.Join(err, configs.Add(u), revisions.Add(recorded)); err != nil {
			t.Fatal(err)
		}
		return revision.HashOf(recorded)
	}
	tier := func(hash string) string {
		got, err := d.Of(deployedBy(testAddOn(), hash))
		if err != nil {
			return string(render.ReasonOf(err))
		}
		return got.Variables["tier"]
	}
	if got, err := d.Of(testAddOn()); got != nil || err != nil {
		t.Errorf("an add-on without an AddOnDeploymentConfig has %v, error %v", got, err)
	}
	if got := tier("x"); got != api.ReasonConfigNotFound {
		t.Errorf("before the creation of the AddOnDeploymentConfig: %s", got)
	}
	first := write(deploymentConfig("first"))
	if got := tier(first); got != "first" {
		t.Errorf("the cluster has %s", got)
	}
	second := write(deploymentConfig("second"))
	for range 2 {
		for hash, want := range map[string]string{first: "first", second: "second", "": "second", "unknown": api.ReasonRevisionNotFound} {
			if got := tier(hash); got != want {
				t.Errorf("with hash %.8q the cluster has %s, want %s", hash, got, want)
			}
		}
		d = NewDeployments(cache.NewGenericLister(configs, utils.AddOnDeploymentConfigGVR.GroupResource()), revisions) // a restart
	}
	if err := revisions.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	for hash, want := range map[string]string{first: api.ReasonRevisionNotFound, second: "second"} {
		if got := tier(hash); got != want {
			t.Errorf("without revisions a cluster with hash %.8q has %s, want %s", hash, got, want)
		}
	}
}

func TestDecodeDeployment(t *testing.T) {
	u := deploymentConfig("gold")
	if d, err := DecodeDeployment(u); err != nil || d.Workloads != nil || d.Variables["tier"] != "gold" {
		t.Errorf("variables alone are %+v, error %v", d, err)
	}
	for field, value := range map[string]any{
		"nodePlacement": map[string]any{"nodeSelector": map[string]any{"a": "b"}},
		"registries":    []any{map[string]any{"source": "a", "mirror": "b"}},
		"proxyConfig":   map[string]any{"httpProxy": "http://proxy", "caBundle": "YQ=="},
	} {
		changed := u.DeepCopy()
		if err := unstructured.SetNestedField(changed.Object, value, "spec", field); err != nil {
			t.Fatal(err)
		}
		if d, err := DecodeDeployment(changed); err != nil || d.Workloads == nil {
			t.Errorf("%s is lost: error %v", field, err)
		}
	}
	verified := u.DeepCopy()
	if err := unstructured.SetNestedSlice(verified.Object, []any{map[string]any{"name": api.VerificationVariable, "value": "Service"}}, "spec", "customizedVariables"); err != nil {
		t.Fatal(err)
	}
	if d, err := DecodeDeployment(verified); err != nil || d.Workloads == nil {
		t.Errorf("the request for a verification is lost: error %v", err)
	}
	u.Object["spec"] = "text"
	if _, err := DecodeDeployment(u); err == nil {
		t.Error("a spec that is no object is read")
	}
}

// TestUnreadableDeployment holds that an AddOnDeploymentConfig that cannot be decoded is a fault of the configuration, which the cluster reports
// with the name of the AddOnDeploymentConfig.
func TestUnreadableDeployment(t *testing.T) {
	d, configs := deployments(t)
	u := deploymentConfig("gold")
	requests := map[string]any{"cpu": "1e1.5"} // the pattern of the CustomResourceDefinition permits the quantity
	if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{
		"containerID": "*:*:*", "resources": map[string]any{"requests": requests},
	}}, "spec", "resourceRequirements"); err != nil {
		t.Fatal(err)
	}
	if err := configs.Add(u); err != nil {
		t.Fatal(err)
	}
	_, err := d.Of(deployedBy(testAddOn(), ""))
	if render.ReasonOf(err) != api.ReasonInvalidSpec || !strings.Contains(err.Error(), `AddOnDeploymentConfig "fleet/infra"`) {
		t.Errorf("reason %s, error %v", render.ReasonOf(err), err)
	}
}
