// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	profilefake "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned/fake"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// newFakeClients returns clients of a hub with one add-on that refers to KnativeServing knative-serving/knative-serving.
func newFakeClients() Clients {
	gvr := api.Serving.Resource()
	listKinds := map[schema.GroupVersionResource]string{
		utils.AddOnDeploymentConfigGVR: "AddOnDeploymentConfigList", fleetv1alpha1.Resource(): "KnativeFleetList",
	}
	for _, c := range api.Components() {
		listKinds[c.Resource()] = c.Kind() + "List"
	}
	addOn := &addonv1beta1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: api.Serving.AddOnName(), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a"}}},
		Status: addonv1beta1.ManagedClusterAddOnStatus{ConfigReferences: []addonv1beta1.ConfigReference{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource},
			DesiredConfig: &addonv1beta1.ConfigSpecHash{
				ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "knative-serving", Name: "knative-serving"}, SpecHash: "h1",
			},
		}}},
	}
	return Clients{
		AddOns: addonfake.NewSimpleClientset(addOn), Clusters: clusterfake.NewSimpleClientset(),
		Configs:  dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds),
		Kube:     kubefake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultOperatorNamespace, Name: operatorName}}),
		Profiles: profilefake.NewSimpleClientset(), Works: workfake.NewSimpleClientset(),
	}
}

// TestHubStart holds that every cache is full after Start, and that no cache holds managed fields.
func TestHubStart(t *testing.T) {
	clients := newFakeClients()
	h, err := NewForClients(clients, DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, synced := range h.listSynced() {
		if !synced() {
			t.Errorf("the cache of %s is not full", name)
		}
	}
	addOn, err := h.ManagedClusterAddOns().Lister().ManagedClusterAddOns("c1").Get(api.Serving.AddOnName())
	if err != nil || len(addOn.ManagedFields) > 0 {
		t.Errorf("the cached add-on is %v (error %v)", addOn, err)
	}
	if h.KnativeOperator().Present() == "" {
		t.Error("the Knative Operator is not found")
	}
	checkReferences(t, h.Configuration(api.Serving))
	if fleet, err := h.KnativeFleets().Get(types.NamespacedName{Namespace: "team", Name: "web"}); fleet != nil || err != nil {
		t.Errorf("without the kind the KnativeFleet is %v (error %v)", fleet, err)
	}
	if _, err := h.InventoryDecisions().List("team", "edge"); !apimeta.IsNoMatchError(err) {
		t.Errorf("without the kind the list of PlacementDecisions ends with %v", err)
	}
}

// TestHistories holds that the cache has the ControllerRevisions of every kind with a history, and no other ControllerRevisions.
func TestHistories(t *testing.T) {
	clients := newFakeClients()
	var want []string
	for _, kind := range revision.Kinds() {
		want = append(want, kind.RevisionLabelValue())
	}
	for _, value := range append([]string{"others"}, want...) {
		recorded := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: value, Labels: map[string]string{api.RevisionLabel: value}}}
		if _, err := clients.Kube.AppsV1().ControllerRevisions("team").Create(t.Context(), recorded, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := NewForClients(clients, DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, key := range h.ControllerRevisions().Informer().GetIndexer().ListKeys() {
		got = append(got, strings.TrimPrefix(key, "team/"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the cached revisions (-want +got):\n%s", diff)
	}
}

// TestOptionalKinds holds that Start fills the caches of optional kinds that the hub serves.
func TestOptionalKinds(t *testing.T) {
	clients := newFakeClients()
	serve := func(f *clienttesting.Fake, group schema.GroupVersion, resource string) {
		f.Resources = append(f.Resources, &metav1.APIResourceList{GroupVersion: group.String(), APIResources: []metav1.APIResource{{Name: resource}}})
	}
	kube, isKube := clients.Kube.(*kubefake.Clientset)
	profiles, isProfiles := clients.Profiles.(*profilefake.Clientset)
	if !isKube || !isProfiles {
		t.Fatal("not fakes")
	}
	serve(&kube.Fake, fleetv1alpha1.Resource().GroupVersion(), "knativefleets")
	serve(&profiles.Fake, clusterinventoryv1alpha1.GroupVersion, "placementdecisions")
	fleet := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": fleetv1alpha1.Group + "/" + fleetv1alpha1.Version, "kind": fleetv1alpha1.Kind,
		"metadata": map[string]any{"namespace": "team", "name": "web", "managedFields": []any{map[string]any{"manager": "a"}}},
	}}
	if _, err := clients.Configs.Resource(fleetv1alpha1.Resource()).Namespace("team").Create(t.Context(), fleet, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	decision := &clusterinventoryv1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "edge-1", Labels: map[string]string{clusterinventoryv1alpha1.DecisionKeyLabel: "edge"},
	}}
	if err := profiles.Tracker().Add(decision); err != nil {
		t.Fatal(err)
	}
	h, err := NewForClients(clients, DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if read, err := h.KnativeFleets().Get(types.NamespacedName{Namespace: "team", Name: "web"}); err != nil || read == nil || len(read.GetManagedFields()) > 0 {
		t.Errorf("the KnativeFleet is %v (error %v)", read, err)
	}
	for key, want := range map[string]int{"edge": 1, "other": 0} {
		if list, err := h.InventoryDecisions().List("team", key); err != nil || len(list) != want {
			t.Errorf("with key %q the PlacementDecisions are %v (error %v)", key, list, err)
		}
	}
}

// TestLocalHubStart holds that every cache is full after Start, and that only namespaced kinds of the usual namespaces are listed.
func TestLocalHubStart(t *testing.T) {
	clients := newFakeClients()
	h, err := NewLocalForClients(clients, DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkReferences(t, h.Configuration(api.Serving))
	fake, ok := clients.Configs.(*dynamicfake.FakeDynamicClient)
	if !ok {
		t.Fatal("not a fake")
	}
	var namespaces []string
	for _, action := range fake.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok {
			namespaces = append(namespaces, list.GetNamespace())
		}
	}
	slices.Sort(namespaces)
	if want := []string{"knative-eventing", "knative-serving"}; !slices.Equal(namespaces, want) {
		t.Errorf("resources of namespaces %q are listed, want %q", namespaces, want)
	}
}

// checkReferences fails the test unless the add-on's reference is found, which needs addon-framework's index of add-ons.
func checkReferences(t *testing.T, c Configuration) {
	t.Helper()
	referred, err := c.References.Of(c.Component, types.NamespacedName{Namespace: "knative-serving", Name: "knative-serving"})
	if err != nil || !referred.Named["h1"] {
		t.Errorf("the references are %v with error %v", referred, err)
	}
}
