// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"open-cluster-management.io/addon-framework/pkg/index"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// byConfig has addon-framework's index of add-ons.
func byConfig(t *testing.T, addOns ...*addonv1beta1.ManagedClusterAddOn) cache.Indexer {
	t.Helper()
	indexer := indexerOf(t, addOns...)
	if err := indexer.AddIndexers(cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig}); err != nil {
		t.Fatal(err)
	}
	return indexer
}

// TestLateRevision holds that a revision which is recorded after OCM refers to it does not wait for a resync, and reaches
// those add-ons only that wait for it.
func TestLateRevision(t *testing.T) {
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": "fleet", "name": "default"}, "spec": map[string]any{"version": "1.23"},
	}}
	rev, err := revision.New(api.Serving, config, 1)
	if err != nil {
		t.Fatal(err)
	}
	addOn := func(cluster, name, hash string) *addonv1beta1.ManagedClusterAddOn {
		gvr := api.Component(name).Resource()
		a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}}
		a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource},
			DesiredConfig: &addonv1beta1.ConfigSpecHash{
				ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}, SpecHash: hash,
			},
		}}
		a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{
			ConfigGroupResource: a.Status.ConfigReferences[0].ConfigGroupResource, ConfigReferent: a.Status.ConfigReferences[0].DesiredConfig.ConfigReferent,
		})
		return a
	}
	hash := revision.HashOf(rev)
	unresolved := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c4", Name: "knative-serving"}}
	r := &Reconciler{AddOnsByConfig: byConfig(t,
		addOn("c1", "knative-serving", hash), addOn("c2", "knative-serving", "other"), addOn("c3", "knative-eventing", hash), unresolved)}
	var got []string
	for _, request := range r.requestsOfRevision(t.Context(), rev) {
		got = append(got, request.String())
	}
	if diff := cmp.Diff([]string{"c1/knative-serving"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = nil
	for _, request := range r.requestsOfConfig(api.Serving)(t.Context(), config) {
		got = append(got, request.String())
	}
	if diff := cmp.Diff([]string{"c1/knative-serving", "c2/knative-serving"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("the configuration (-want +got):\n%s", diff)
	}
	if requests := r.requestsOfRevision(t.Context(), &appsv1.ControllerRevision{}); len(requests) > 0 {
		t.Errorf("a revision of others asks for %v", requests)
	}
	p := creationPredicate()
	if !p.Create(event.CreateEvent{Object: rev}) || p.Update(event.UpdateEvent{ObjectOld: rev, ObjectNew: rev}) || p.Delete(event.DeleteEvent{Object: rev}) {
		t.Error("only new revisions count")
	}
}

// TestLateRevisionOfDeploymentConfig holds that a recorded spec of an AddOnDeploymentConfig reaches the add-ons that wait for the spec.
func TestLateRevisionOfDeploymentConfig(t *testing.T) {
	rev, err := revision.New(revision.DeploymentConfig{}, &unstructured.Unstructured{Object: map[string]any{
		"kind": "AddOnDeploymentConfig", "metadata": map[string]any{"namespace": "fleet", "name": "infra"}, "spec": map[string]any{"registries": []any{}},
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	gvr, referent := revision.DeploymentConfig{}.Resource(), addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "infra"}
	resource := addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource}
	addOn := func(cluster, hash string) *addonv1beta1.ManagedClusterAddOn {
		a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "knative-eventing"}}
		a.Spec.Configs = []addonv1beta1.AddOnConfig{{ConfigGroupResource: resource, ConfigReferent: referent}}
		a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
			ConfigGroupResource: resource, DesiredConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: hash},
		}}
		return a
	}
	r := &Reconciler{AddOnsByConfig: byConfig(t, addOn("c1", revision.HashOf(rev)), addOn("c2", "other"))}
	got := r.requestsOfRevision(t.Context(), rev)
	if len(got) != 1 || got[0].String() != "c1/knative-eventing" {
		t.Errorf("requests are %v", got)
	}
}

// TestClusterChangedPredicate holds that frequent reports of a cluster enqueue no add-on, and that values for configurations do.
func TestClusterChangedPredicate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		want   bool
	}{
		"nothing": {func(*clusterv1.ManagedCluster) {}, false},
		"capacity": {func(c *clusterv1.ManagedCluster) {
			c.Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("3")}
			c.ResourceVersion = "2"
		}, false},
		"version":    {func(c *clusterv1.ManagedCluster) { c.Status.Version.Kubernetes = "v1.36.0" }, false},
		"label":      {func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"region": "us"} }, true},
		"claim":      {func(c *clusterv1.ManagedCluster) { c.Status.ClusterClaims[0].Value = "y" }, true},
		"acceptance": {func(c *clusterv1.ManagedCluster) { c.Generation = 2 }, true},
		"condition":  {func(c *clusterv1.ManagedCluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"leaving":    {func(c *clusterv1.ManagedCluster) { c.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := newHub().cluster
			before.Generation, before.Labels = 1, map[string]string{"region": "eu"}
			before.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id", Value: "x"}}
			after := before.DeepCopy()
			tc.change(after)
			if got := clusterChangedPredicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("the update passes: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestRequestsOfDeploymentConfig holds that a changed AddOnDeploymentConfig enqueues the add-ons that refer to the config.
func TestRequestsOfDeploymentConfig(t *testing.T) {
	addOn := func(cluster, config string) *addonv1beta1.ManagedClusterAddOn {
		a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "knative-serving"}}
		a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: utils.AddOnDeploymentConfigGVR.Group, Resource: utils.AddOnDeploymentConfigGVR.Resource},
			DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: config}},
		}}
		a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{
			ConfigGroupResource: a.Status.ConfigReferences[0].ConfigGroupResource, ConfigReferent: a.Status.ConfigReferences[0].DesiredConfig.ConfigReferent,
		})
		return a
	}
	none := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c3", Name: "knative-serving"}}
	r := &Reconciler{AddOnsByConfig: byConfig(t, addOn("c1", "infra"), addOn("c2", "other"), none)}
	config := &unstructured.Unstructured{}
	config.SetNamespace("fleet")
	config.SetName("infra")
	var got []string
	for _, request := range r.requestsOfDeploymentConfig(t.Context(), config) {
		got = append(got, request.String())
	}
	if diff := cmp.Diff([]string{"c1/knative-serving"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRequestsWithReference holds that a change of consent enqueues the add-ons that need consent to a reference.
func TestRequestsWithReference(t *testing.T) {
	config := func(name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "blue", "name": name}, "spec": spec}}
	}
	addOn := func(cluster, config string, annotations map[string]string) *addonv1beta1.ManagedClusterAddOn {
		a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: api.Serving.AddOnName(), Annotations: annotations}}
		if config != "" {
			gvr := api.Serving.Resource()
			a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
				ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource},
				DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "blue", Name: config}},
			}}
			a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{
				ConfigGroupResource: a.Status.ConfigReferences[0].ConfigGroupResource, ConfigReferent: a.Status.ConfigReferences[0].DesiredConfig.ConfigReferent,
			})
		}
		return a
	}
	other := addOn("other", "refers", nil)
	other.Name = "somebody-elses"
	r := &Reconciler{
		AddOns: addonlisters.NewManagedClusterAddOnLister(indexerOf(t,
			addOn("named", "refers", nil), addOn("fleet", "fleet", nil), addOn("gone", "gone", nil), addOn("none", "", nil),
			addOn("made", "", map[string]string{api.InstalledForAnnotation: "blue/refers"}), other)),
		Configs: map[api.Component]cache.Indexer{api.Serving: indexerOf(t,
			config("refers", map[string]any{"clusterProfileRef": map[string]any{"namespace": "blue", "name": "named"}}), config("fleet", map[string]any{}))},
	}
	var got []string
	for _, request := range r.requestsWithReference(t.Context(), nil) {
		got = append(got, request.Namespace)
	}
	if diff := cmp.Diff([]string{"made", "named"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
