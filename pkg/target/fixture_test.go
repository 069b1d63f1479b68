// Copyright Contributors to the Open Cluster Management project

package target

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta2 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

const (
	clusterName = "c1"
	team        = "team"
)

// config is a KnativeServing team/name, created in that second, which refers to ClusterProfile team/c1. Its UID is its name.
func config(name string, second int64, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(),
		"metadata": map[string]any{"namespace": team, "name": name, "uid": name},
		"spec":     map[string]any{"clusterProfileRef": map[string]any{"namespace": team, "name": clusterName}},
	}}
	c.SetCreationTimestamp(metav1.Unix(second, 0))
	for _, change := range changes {
		change(c)
	}
	return c
}

func refersTo(namespace, name string) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) {
		c.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"namespace": namespace, "name": name}}
	}
}

func refersToNothing(c *unstructured.Unstructured) { c.Object["spec"] = map[string]any{} }

func in(namespace string) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) { c.SetNamespace(namespace) }
}

func beingDeleted(c *unstructured.Unstructured) {
	c.SetDeletionTimestamp(new(metav1.Unix(9999, 0)))
}

// addOn is the add-on of the cluster; each name is of a KnativeServing in its spec.configs.
func addOn(names ...string) *addonv1beta1.ManagedClusterAddOn {
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterName, Name: api.Serving.AddOnName(), Annotations: map[string]string{},
	}}
	gvr := api.Serving.Resource()
	for _, name := range names {
		referent := addonv1beta1.ConfigReferent{Namespace: team, Name: name}
		group := addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource}
		a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{ConfigGroupResource: group, ConfigReferent: referent})
		a.Status.ConfigReferences = append(a.Status.ConfigReferences, addonv1beta1.ConfigReference{
			ConfigGroupResource: group, DesiredConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: referent},
		})
	}
	return a
}

func installedFor(a *addonv1beta1.ManagedClusterAddOn, name string) *addonv1beta1.ManagedClusterAddOn {
	a.Annotations[api.InstalledForAnnotation] = name
	return a
}

func leaving(a *addonv1beta1.ManagedClusterAddOn) *addonv1beta1.ManagedClusterAddOn {
	a.DeletionTimestamp = new(metav1.Unix(9999, 0))
	return a
}

// hub is what the caches hold: at first a cluster of OCM that is there, its profile, and the right to it.
type hub struct {
	configs  []*unstructured.Unstructured
	profiles map[types.NamespacedName]*clusterinventoryv1alpha1.ClusterProfile
	clusters []*clusterv1.ManagedCluster
	bindings []*clusterv1beta2.ManagedClusterSetBinding
	sets     []*clusterv1beta2.ManagedClusterSet
	direct   resolve.DirectDelivery
	// failProfile is what reading any profile fails with.
	failProfile error
}

func newHub(configs ...*unstructured.Unstructured) *hub {
	return &hub{
		configs:  configs,
		profiles: map[types.NamespacedName]*clusterinventoryv1alpha1.ClusterProfile{{Namespace: team, Name: clusterName}: profile(team)},
		clusters: []*clusterv1.ManagedCluster{{
			ObjectMeta: metav1.ObjectMeta{Name: clusterName, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: "dev"}},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue},
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue},
			}},
		}},
		bindings: []*clusterv1beta2.ManagedClusterSetBinding{binding(team, "dev")},
		sets: []*clusterv1beta2.ManagedClusterSet{{
			ObjectMeta: metav1.ObjectMeta{Name: "dev"},
			Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: clusterv1beta2.ManagedClusterSelector{
				SelectorType: clusterv1beta2.ExclusiveClusterSetLabel,
			}},
		}},
	}
}

func profile(namespace string) *clusterinventoryv1alpha1.ClusterProfile {
	return &clusterinventoryv1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: clusterName, Annotations: map[string]string{},
			Labels: map[string]string{clusterv1.ClusterNameLabelKey: clusterName},
		},
		Spec: clusterinventoryv1alpha1.ClusterProfileSpec{ClusterManager: clusterinventoryv1alpha1.ClusterManager{Name: api.ClusterManagerOCM}},
		Status: clusterinventoryv1alpha1.ClusterProfileStatus{
			Conditions: []metav1.Condition{{Type: clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy, Status: metav1.ConditionTrue}},
		},
	}
}

func binding(namespace, set string) *clusterv1beta2.ManagedClusterSetBinding {
	return &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
		Status: clusterv1beta2.ManagedClusterSetBindingStatus{
			Conditions: []metav1.Condition{{Type: clusterv1beta2.ClusterSetBindingBoundType, Status: metav1.ConditionTrue}},
		},
	}
}

// Get implements Profiles.
func (h *hub) Get(name types.NamespacedName) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	return h.profiles[name], h.failProfile
}

func (h *hub) profile() *clusterinventoryv1alpha1.ClusterProfile {
	return h.profiles[types.NamespacedName{Namespace: team, Name: clusterName}]
}

func indexerOf[T runtime.Object](t *testing.T, objects []T, indexers cache.Indexers) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := indexer.AddIndexers(indexers); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

func (h *hub) finder(t *testing.T) *Finder {
	t.Helper()
	return &Finder{
		Configs:  map[api.Component]cache.Indexer{api.Serving: indexerOf(t, h.configs, Indexers())},
		Profiles: h,
		Clusters: clusterlisters.NewManagedClusterLister(indexerOf(t, h.clusters, nil)),
		Bindings: clusterlistersv1beta2.NewManagedClusterSetBindingLister(indexerOf(t, h.bindings, nil)),
		Sets:     clusterlistersv1beta2.NewManagedClusterSetLister(indexerOf(t, h.sets, nil)),
		Direct:   func() resolve.DirectDelivery { return h.direct },
	}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: team, Name: name}
}

func nameIn(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
