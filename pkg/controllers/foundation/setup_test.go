// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

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
		return a
	}
	hash := revision.HashOf(rev)
	unresolved := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c4", Name: "knative-serving"}}
	r := &Reconciler{AddOnsByConfig: byConfig(t,
		addOn("c1", "knative-serving", hash), addOn("c2", "knative-serving", "other"), addOn("c3", "knative-eventing", hash), unresolved)}
	var got []string
	for _, request := range r.addOnsOfRevision(t.Context(), rev) {
		got = append(got, request.String())
	}
	if diff := cmp.Diff([]string{"c1/knative-serving"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = nil
	for _, request := range r.addOnsOfConfig(api.Serving)(t.Context(), config) {
		got = append(got, request.String())
	}
	if diff := cmp.Diff([]string{"c1/knative-serving", "c2/knative-serving"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("the configuration (-want +got):\n%s", diff)
	}
	if requests := r.addOnsOfRevision(t.Context(), &appsv1.ControllerRevision{}); len(requests) > 0 {
		t.Errorf("a revision of others asks for %v", requests)
	}
	p := created()
	if !p.Create(event.CreateEvent{Object: rev}) || p.Update(event.UpdateEvent{ObjectOld: rev, ObjectNew: rev}) || p.Delete(event.DeleteEvent{Object: rev}) {
		t.Error("only new revisions count")
	}
}
