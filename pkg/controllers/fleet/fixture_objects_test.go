// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// addDecision makes the clusters the decisions of Placement edge, in its first decision group.
func addDecision(t *testing.T, h *fakeHub, clusters ...string) {
	t.Helper()
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "edge-decision-1", Labels: labels.Set{
		clusterv1beta1.PlacementLabel: "edge", clusterv1beta1.DecisionGroupIndexLabel: "0",
	}}}
	for _, c := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
	}
	if err := h.ocmDecisions.Add(d); err != nil {
		t.Fatal(err)
	}
}

// dropUnknown stores KnativeServings without the field unknown, as an API server prunes fields that a schema lacks.
func dropUnknown(h *fakeHub) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		unstructured.RemoveNestedField(action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).Object, "spec", "unknown") //nolint:forcetypeassert // of a dynamic client
		return h.create(action)
	}
}

func fleetKey() types.NamespacedName { return types.NamespacedName{Namespace: team, Name: fleetName} }
