// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// serving is a KnativeServing team/name, created in that second, which refers to ClusterProfile team/c1.
func serving(name string, second int64, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(),
		"metadata": map[string]any{"namespace": team, "name": name, "uid": "uid-" + name, "generation": int64(1)},
		"spec":     map[string]any{"clusterProfileRef": map[string]any{"namespace": team, "name": clusterName}},
	}}
	c.SetCreationTimestamp(metav1.Unix(second, 0))
	for _, change := range changes {
		change(c)
	}
	return c
}

func refersToNothing(c *unstructured.Unstructured) { c.Object["spec"] = map[string]any{} }

func finalized(c *unstructured.Unstructured) { c.SetFinalizers([]string{api.InstallFinalizer}) }

func beingDeleted(c *unstructured.Unstructured) { c.SetDeletionTimestamp(new(metav1.Unix(5000, 0))) }

// addOnOf is the add-on of the cluster with team/name in its spec.configs; with the empty name it has none.
func addOnOf(name string, changes ...func(*addonv1beta1.ManagedClusterAddOn)) *addonv1beta1.ManagedClusterAddOn {
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterName, Name: api.Serving.AddOnName(), Annotations: map[string]string{}, Finalizers: []string{api.FoundationFinalizer},
	}}
	if name != "" {
		gvr := api.Serving.Resource()
		a.Spec.Configs = []addonv1beta1.AddOnConfig{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource},
			ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: team, Name: name},
		}}
		a.Annotations[api.InstalledForAnnotation] = team + "/" + name
	}
	for _, change := range changes {
		change(a)
	}
	return a
}

func byUser(a *addonv1beta1.ManagedClusterAddOn) { delete(a.Annotations, api.InstalledForAnnotation) }

func leavingAddOn(a *addonv1beta1.ManagedClusterAddOn) {
	a.DeletionTimestamp = new(metav1.Unix(5000, 0))
}

func uses(name string) func(*addonv1beta1.ManagedClusterAddOn) {
	return func(a *addonv1beta1.ManagedClusterAddOn) {
		gvr := api.Serving.Resource()
		a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource},
			DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: team, Name: name}},
		}}
		given(a)
		completes(serving(name, 100, refersToNothing))(a)
	}
}

// completes has OCM seen the cluster run the spec of the resource.
func completes(config *unstructured.Unstructured) func(*addonv1beta1.ManagedClusterAddOn) {
	return func(a *addonv1beta1.ManagedClusterAddOn) {
		hash, err := revision.Hash(config)
		if err != nil {
			panic(err)
		}
		a.Status.ConfigReferences[0].LastAppliedConfig = &addonv1beta1.ConfigSpecHash{SpecHash: hash}
	}
}

// given has the hub give to the add-on what the status names.
func given(a *addonv1beta1.ManagedClusterAddOn) {
	var grants []string
	for _, ref := range a.Status.ConfigReferences {
		grants = append(grants, revision.GrantOf(ref.ConfigGroupResource, ref.DesiredConfig.ConfigReferent))
	}
	a.Annotations[api.GrantedConfigsAnnotation] = strings.Join(grants, ",")
}

func on(cluster string) func(*addonv1beta1.ManagedClusterAddOn) {
	return func(a *addonv1beta1.ManagedClusterAddOn) { a.Namespace = cluster }
}

func says(condition string, status metav1.ConditionStatus) func(*addonv1beta1.ManagedClusterAddOn) {
	return func(a *addonv1beta1.ManagedClusterAddOn) {
		a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: "Because", Message: "somebody has to answer"})
	}
}
