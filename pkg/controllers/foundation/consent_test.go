// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestConsentChanged holds that a change of consent has those add-ons looked at that it is about, whoever has configured them.
func TestConsentChanged(t *testing.T) {
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
	for _, request := range r.addOnsWithReference(t.Context(), nil) {
		got = append(got, request.Namespace)
	}
	if diff := cmp.Diff([]string{"made", "named"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
