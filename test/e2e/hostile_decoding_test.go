// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// undecodableConditions are conditions that pass format date-time of a CustomResourceDefinition, with a time that metav1.Time cannot decode.
const undecodableConditions = `"conditions":[{"type":"Forged","status":"True","reason":"Forged","message":"","lastTransitionTime":%q}]`

// fractionalCondition is a condition that passes type integer of a CustomResourceDefinition, with a number that int64 cannot decode, and
// fractionalField is the field in the refusal.
const (
	fractionalCondition = `"conditions":[{"type":"Forged","status":"True","reason":"Forged","message":"","lastTransitionTime":"2024-01-01T00:00:00Z",` +
		`"observedGeneration":1.0000000001}]`
	fractionalField = "status.conditions[Forged].observedGeneration"
)

// scoreResource are OCM's AddOnPlacementScores, whose status the agents of add-ons write in the namespace of the cluster.
var scoreResource = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1alpha1", Resource: "addonplacementscores"}

// tenantPlacements are OCM's Placements, which tenants write in the namespaces of their sets.
var tenantPlacements = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: "placements"}

// undecodablePatch is a merge patch that the schema of a kind permits, and that makes every typed list of the kind fail.
type undecodablePatch struct {
	client      dynamic.Interface
	resource    schema.GroupVersionResource
	name        string
	subresource string
	patch       string
	// want is the field and the remedy in the refusal.
	want string
}

// forgeUndecodable writes values that the types of the manager's and OCM's caches cannot decode, as the agent of the cluster and, for
// the kinds of tenants, as a user of the hub. The chart's admission policies refuse every write.
func (k *hostileAgent) forgeUndecodable(t *testing.T) {
	agent, err := dynamic.NewForConfig(k.config)
	if err != nil {
		t.Fatal(err)
	}
	placement := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": tenantPlacements.GroupVersion().String(), "kind": "Placement", "metadata": map[string]any{"name": "forged"}, "spec": map[string]any{},
	}}
	if _, err := k.configs.Resource(tenantPlacements).Namespace(k.namespace).Create(t.Context(), placement, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	score := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": scoreResource.GroupVersion().String(), "kind": "AddOnPlacementScore", "metadata": map[string]any{"name": "forged"},
	}}
	if _, err := k.configs.Resource(scoreResource).Namespace(k.cluster.Name).Create(t.Context(), score, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range append(k.undecodableStatuses(agent), k.undecodableTenantPatches()...) {
		namespace := k.cluster.Name
		switch p.resource.Resource {
		case "managedclusters":
			namespace = metav1.NamespaceNone
		case "clusterprofiles", "placements":
			namespace = k.namespace
		}
		var subresources []string
		if p.subresource != "" {
			subresources = []string{p.subresource}
		}
		_, err := p.client.Resource(p.resource).Namespace(namespace).Patch(
			t.Context(), p.name, types.MergePatchType, []byte(p.patch), metav1.PatchOptions{}, subresources...)
		if !refused(err) || !strings.Contains(err.Error(), p.want) {
			t.Errorf("patch %s of %s %s: error %v, want the refusal %q", p.patch, p.resource.Resource, p.name, err, p.want)
		}
	}
	if _, err := k.Works.WorkV1().ManifestWorks(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the hub cannot list ManifestWorks: %v", err)
	}
}

func (k *hostileAgent) undecodableStatuses(agent dynamic.Interface) []undecodablePatch {
	const aTime, aQuantity = "has to be a time such as 2024-01-01T00:00:00Z", "has to be a quantity such as 16Gi"
	const manifest = `{"status":{"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":%d,"group":"","version":"v1","kind":"ConfigMap",` +
		`"resource":"configmaps","name":"forged","namespace":"default"},%s}]}}}`
	works := schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
	clusters := schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
	work, addOn := manifestwork.FoundationName(api.Serving), api.Serving.AddOnName()
	conditions := fmt.Sprintf(undecodableConditions, "2024-01-01T00:00:00z")
	patches := []undecodablePatch{
		{agent, works, work, "status", fmt.Sprintf(manifest, 0, conditions), "status.resourceStatus.manifests[forged].conditions[].lastTransitionTime"},
		{agent, works, work, "status", fmt.Sprintf(manifest, 3_000_000_000, `"conditions":[]`), "resourceMeta.ordinal of manifestworks " + work + " has to be an integer of 32 bits"},
		{agent, clusters, k.cluster.Name, "status", `{"status":{` + conditions + `}}`, aTime},
		{agent, clusters, k.cluster.Name, "status", `{"status":{"managedNamespaces":[{"name":"forged","clusterSet":"forged",` + conditions + `}]}}`, aTime},
		{agent, clusters, k.cluster.Name, "status", `{"status":{"allocatable":{"forged":"1e.5"}}}`, aQuantity},
	}
	patches = append(patches, undecodablePatch{
		agent, works, work, "status", strings.Replace(fmt.Sprintf(manifest, 0, `"conditions":[]`), `"ordinal":0`, `"ordinal":3e9`, 1), "resourceMeta.ordinal",
	})
	for _, time := range []string{"2024-01-01T00:00:00z", "2024-01-01t00:00:00Z", "2024-01-01T00:00:00Ztrailer", "2024-01-01T00:00:00x5Z", "2024-01-01T00:00:00+99:99"} {
		patches = append(patches, undecodablePatch{
			agent, works, work, "status", `{"status":{` + fmt.Sprintf(undecodableConditions, time) + `}}`,
			"status.conditions[Forged].lastTransitionTime of manifestworks " + work + " " + aTime,
		})
	}
	// The parser of quantities does not end with the last of these.
	for _, quantity := range []string{"1e1.5", "1e99999999999999999999", "1e2147483648"} {
		patches = append(patches, undecodablePatch{agent, clusters, k.cluster.Name, "status", fmt.Sprintf(`{"status":{"capacity":{"forged":%q}}}`, quantity), aQuantity})
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		addOns := addOnResource.GroupResource().WithVersion(version)
		patches = append(patches,
			undecodablePatch{agent, addOns, addOn, "status", `{"status":{` + conditions + `}}`, aTime},
			undecodablePatch{agent, addOns, addOn, "status", `{"status":{` + fractionalCondition + `}}`, fractionalField},
			undecodablePatch{
				agent, addOns, addOn, "status",
				`{"status":{"configReferences":[{"group":"operator.knative.dev","resource":"knativeservings","namespace":"forged","name":"forged",` +
					`"lastObservedGeneration":1.0000000001}]}}`,
				"status.configReferences[knativeservings].lastObservedGeneration",
			})
	}
	return append(patches,
		undecodablePatch{agent, works, work, "status", `{"status":{` + fractionalCondition + `}}`, fractionalField},
		undecodablePatch{agent, clusters, k.cluster.Name, "status", `{"status":{` + fractionalCondition + `}}`, fractionalField},
		undecodablePatch{
			agent, works, work, "status", fmt.Sprintf(manifest, 0, fractionalCondition), "status.resourceStatus.manifests[forged].conditions[].observedGeneration",
		},
		undecodablePatch{
			agent, clusters, k.cluster.Name, "status", `{"status":{"managedNamespaces":[{"name":"forged","clusterSet":"forged",` + fractionalCondition + `}]}}`,
			"status.managedNamespaces[forged].conditions[].observedGeneration",
		},
		undecodablePatch{
			agent, works, work, "status", strings.Replace(fmt.Sprintf(manifest, 0, `"conditions":[]`), `"ordinal":0`, `"ordinal":1000000000.5`, 1),
			"resourceMeta.ordinal",
		},
		undecodablePatch{
			agent, works, work, "status",
			fmt.Sprintf(manifest, 0, `"conditions":[],"statusFeedback":{"values":[{"name":"forged","fieldValue":{"type":"Integer","integer":1.0000000001}}]}`),
			"status.resourceStatus.manifests[forged].statusFeedback.values[].fieldValue.integer",
		},
	)
}

func (k *hostileAgent) undecodableTenantPatches() []undecodablePatch {
	const aTime, anInteger = "has to be a time such as 2024-01-01T00:00:00Z", "has to be an integer of 32 bits"
	conditions := fmt.Sprintf(undecodableConditions, "2024-01-01T00:00:00z")
	return []undecodablePatch{
		{k.configs, scoreResource, "forged", "status", `{"status":{"validUntil":"2024-01-01T00:00:00z"}}`, "status.validUntil"},
		{k.configs, scoreResource, "forged", "status", `{"status":{"scores":[{"name":"forged","value":1.0000000001}]}}`, "status.scores[forged].value"},
		{k.configs, profileResource, k.cluster.Name, "status", `{"status":{` + fractionalCondition + `}}`, fractionalField},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"numberOfClusters":1.0000000001}}`, anInteger},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":1.0000000001}}}}`, anInteger},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"spreadPolicy":{"spreadConstraints":[{"topologyKey":"forged","topologyKeyType":"Label","maxSkew":1.0000000001}]}}}`, anInteger},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"prioritizerPolicy":{"configurations":[{"scoreCoordinate":{"builtIn":"Steady"},"weight":9.0000000001}]}}}`, "weight"},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"tolerations":[{"operator":"Exists","tolerationSeconds":1.0000000001}]}}`, "tolerationSeconds"},
		{k.configs, profileResource, k.cluster.Name, "status", `{"status":{` + conditions + `}}`, aTime},
		{k.configs, profileResource, k.cluster.Name, "status", `{"status":{"properties":[{"name":"forged","value":"forged","lastObservedTime":"2024-01-01T00:00:00z"}]}}`, aTime},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"numberOfClusters":3000000000}}`, anInteger},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"numberOfClusters":3e9}}`, anInteger},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":3e9}}}}`, anInteger},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":3000000000}}}}`, anInteger},
		{k.configs, tenantPlacements, "forged", "", `{"spec":{"spreadPolicy":{"spreadConstraints":[{"topologyKey":"forged","topologyKeyType":"Label","maxSkew":3000000000}]}}}`, anInteger},
	}
}
