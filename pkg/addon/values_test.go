// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// valuesFixture is a hub with a KnativeServing that uses a label, a claim and a variable.
type valuesFixture struct {
	tb              testing.TB
	bundles         *RenderedBundles
	works, clusters cache.Indexer
	hash            string // of the AddOnDeploymentConfig
}

func newValuesFixture(tb testing.TB) *valuesFixture {
	tb.Helper()
	v := &valuesFixture{tb: tb, clusters: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	v.bundles, _, v.works = bundlesOf(tb, map[string]any{
		"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
		"config": map[string]any{"defaults": map[string]any{
			"x": "$(cluster.labels.region) $(cluster.claims.id) $(cluster.variables.tier)",
		}},
	}, "1.23.0")
	v.bundles.Clusters = clusterlisters.NewManagedClusterLister(v.clusters)
	var configs cache.Indexer
	v.bundles.Deployments, configs = deployments(tb)
	config := deploymentConfig("gold")
	var err error
	if v.hash, err = utils.GetSpecHash(config); err != nil {
		tb.Fatal(err)
	}
	if err := configs.Add(config); err != nil {
		tb.Fatal(err)
	}
	return v
}

func (v *valuesFixture) cluster(name, region string) {
	v.tb.Helper()
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": region, "other": name}}}
	c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id", Value: "1"}}
	if err := v.clusters.Update(c); err != nil {
		v.tb.Fatal(err)
	}
}

func (v *valuesFixture) addOn(cluster string) *addonv1beta1.ManagedClusterAddOn {
	a := deployedBy(testAddOn(), v.hash)
	a.Namespace = cluster
	a.Annotations = map[string]string{api.GrantedConfigsAnnotation: "knativeservings." + api.Group + "/fleet/default"}
	a.Status.ConfigReferences = append(a.Status.ConfigReferences, addonv1beta1.ConfigReference{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}},
	})
	return a
}

func (v *valuesFixture) bundle(cluster string) *render.Bundle {
	v.tb.Helper()
	b, err := awaitRendered(func() (*render.Bundle, error) { return v.bundles.Bundle(v.tb.Context(), v.addOn(cluster)) })
	if err != nil {
		v.tb.Fatal(err)
	}
	return b
}

// awaitRendered requests a bundle until the bundle is rendered: a busy machine renders for longer than a request waits.
func awaitRendered(request func() (*render.Bundle, error)) (*render.Bundle, error) {
	for {
		if b, err := request(); !render.IsPending(err) {
			return b, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func has(b *render.Bundle, text string) bool {
	for _, o := range b.Payload {
		if o.GetName() == "config-defaults" && strings.Contains(string(o.JSON), text) {
			return true
		}
	}
	return false
}

func TestEachClusterHasItsValues(t *testing.T) {
	v := newValuesFixture(t)
	v.cluster("c1", "eu")
	v.cluster("c2", "us")
	v.cluster("c3", "eu")
	one, two := v.bundle("c1"), v.bundle("c2")
	if !has(one, `"x":"eu 1 gold"`) || !has(two, `"x":"us 1 gold"`) {
		t.Error("a cluster does not have its own values")
	}
	if v.bundle("c3") != one {
		t.Error("clusters with the same values do not share a bundle")
	}
	v.cluster("c1", "asia")
	if !has(v.bundle("c1"), `"x":"asia 1 gold"`) || v.bundle("c2") != two {
		t.Error("a changed label changes another cluster, or not its own")
	}
	if s := v.bundles.Renderer.CacheStats(); s.Misses != 3 {
		t.Errorf("%d bundles were rendered, want one for each region", s.Misses)
	}
	name := types.NamespacedName{Namespace: "fleet", Name: "default"}
	if b, err := v.bundles.Latest(t.Context(), name, v.addOn("c2")); err != nil || b != two {
		t.Errorf("the latest bundle is another: %v", err)
	}
	if version, _, err := v.bundles.Version(t.Context(), api.Serving, name); err != nil || version != "1.23.0" {
		t.Errorf("whatever the cluster, the version is %q, error %v", version, err)
	}
}

// TestHostileClaim holds that a claim, which the agent of a cluster writes, is text in the configuration of that cluster and
// nothing else: it is not read again, opens no other field, and reaches no other cluster.
func TestHostileClaim(t *testing.T) {
	v := newValuesFixture(t)
	v.cluster("c1", "eu")
	v.cluster("c2", "eu")
	before := v.bundle("c2")
	hostile := "1\"}\nkind: Secret\n$(cluster.labels.other) $(cluster.claims.id)"
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"region": "eu", "other": "secret"}}}
	c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id", Value: hostile}}
	if err := v.clusters.Update(c); err != nil {
		t.Fatal(err)
	}
	found := false
	forged := v.bundle("c1")
	for _, o := range forged.Payload {
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		found = found || o.GetName() == "config-defaults" && data["x"] == "eu "+hostile+" gold"
	}
	if !found || len(forged.Payload) != len(before.Payload) {
		t.Errorf("the claim is text of the configuration: %t; %d objects became %d", found, len(before.Payload), len(forged.Payload))
	}
	if v.bundle("c2") != before {
		t.Error("the claim changes another cluster")
	}
}

func TestMissingValues(t *testing.T) {
	v := newValuesFixture(t)
	v.cluster("c1", "")
	without := v.addOn("c1")
	without.Status.ConfigReferences = without.Status.ConfigReferences[1:]
	for name, tc := range map[string]struct {
		addOn *addonv1beta1.ManagedClusterAddOn
		want  []string
	}{
		"an empty label":              {v.addOn("c1"), []string{`"c1"`, "$(cluster.labels.region)"}},
		"no AddOnDeploymentConfig":    {without, []string{"$(cluster.labels.region)", "$(cluster.variables.tier)"}},
		"a cluster that is not there": {v.addOn("c9"), []string{"no ManagedCluster c9"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := awaitRendered(func() (*render.Bundle, error) { return v.bundles.Bundle(t.Context(), tc.addOn) })
			if render.ReasonOf(err) != api.ReasonValueMissing {
				t.Fatalf("error is %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %s", err, want)
				}
			}
		})
	}
}

func TestValuesOfAPlace(t *testing.T) {
	v := newValuesFixture(t)
	name := types.NamespacedName{Namespace: "fleet", Name: "default"}
	given := values.Given(map[values.Reference]string{
		{Source: values.Labels, Key: "region"}: "a", {Source: values.Claims, Key: "id"}: "b", {Source: values.Variables, Key: "tier"}: "c",
	})
	b, err := awaitRendered(func() (*render.Bundle, error) {
		return v.bundles.OfConfigFrom(t.Context(), api.Serving, name, Place{Values: given})
	})
	if err != nil || !has(b, `"x":"a b c"`) {
		t.Errorf("the place has not its values: %v", err)
	}
	for want, place := range map[render.Reason]Place{
		api.ReasonValueMissing: {Values: values.None("none")},
		api.ReasonNotEligible:  {Values: given, Installed: render.Installed{Delivered: "1.20.0"}},
	} {
		_, err := awaitRendered(func() (*render.Bundle, error) { return v.bundles.OfConfigFrom(t.Context(), api.Serving, name, place) })
		if render.ReasonOf(err) != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}
