// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestClusterChanged holds that what a cluster reports all the time asks for nothing, and what configurations may use does.
func TestClusterChanged(t *testing.T) {
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
			if got := clusterChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("it asks for a look: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestAddOnsOfDeployment holds that a changed AddOnDeploymentConfig has those looked at that it is of.
func TestAddOnsOfDeployment(t *testing.T) {
	addOn := func(cluster, config string) *addonv1beta1.ManagedClusterAddOn {
		a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "knative-serving"}}
		a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: utils.AddOnDeploymentConfigGVR.Group, Resource: utils.AddOnDeploymentConfigGVR.Resource},
			DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: config}},
		}}
		return a
	}
	none := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c3", Name: "knative-serving"}}
	r := &Reconciler{AddOnsByConfig: byConfig(t, addOn("c1", "infra"), addOn("c2", "other"), none)}
	config := &unstructured.Unstructured{}
	config.SetNamespace("fleet")
	config.SetName("infra")
	var got []string
	for _, request := range r.addOnsOfDeployment(t.Context(), config) {
		got = append(got, request.String())
	}
	if diff := cmp.Diff([]string{"c1/knative-serving"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestValuesResolved holds what the condition says, and that it is not there as long as no value was ever missing.
func TestValuesResolved(t *testing.T) {
	missing := &render.Error{Reason: render.ReasonValueMissing, Message: "no region"}
	other := &render.Error{Reason: render.ReasonInvalidSpec, Message: "bad"}
	for name, tc := range map[string]struct {
		had   bool
		fault *render.Error
		want  string
	}{
		"never missing":          {false, nil, ""},
		"missing":                {false, missing, "False ValueMissing no region"},
		"still missing":          {true, missing, "False ValueMissing no region"},
		"found":                  {true, nil, "True ValuesFound the cluster has every value that its configuration uses"},
		"nobody knows":           {true, other, ""},
		"bad, and never missing": {false, other, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{addon: newHub().addOn}
			if tc.had {
				s.addon.Status.Conditions = []metav1.Condition{{Type: api.ValuesResolved, Status: metav1.ConditionFalse}}
			}
			got := ""
			if c := valuesResolved(s, tc.fault); c != nil {
				got = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
