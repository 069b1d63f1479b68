// Copyright Contributors to the Open Cluster Management project

package work

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
)

// Names of the values that the work agent feeds back of a Deployment or StatefulSet. A value that is absent on the
// cluster is not reported, and is 0.
const (
	generationValue = "Generation"
	observedValue   = "ObservedGeneration"
	desiredValue    = "SpecReplicas"
	totalValue      = "Replicas"
	updatedValue    = "UpdatedReplicas"
	availableValue  = "AvailableReplicas"
)

// workloadFeedback is what the work agent reports of a workload; available is where its pods that are available are counted.
func workloadFeedback(available string) []workv1.FeedbackRule {
	return []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
		{Name: generationValue, Path: ".metadata.generation"},
		{Name: observedValue, Path: ".status.observedGeneration"},
		{Name: desiredValue, Path: ".spec.replicas"},
		{Name: totalValue, Path: ".status.replicas"},
		{Name: updatedValue, Path: ".status.updatedReplicas"},
		{Name: availableValue, Path: available},
	}}}
}

func workloadState(resource, namespace, name string, values []workv1.FeedbackValue) delivery.WorkloadState {
	kind := "Deployment"
	if resource == "statefulsets" {
		kind = "StatefulSet"
	}
	return delivery.WorkloadState{
		WorkloadKey:        delivery.WorkloadKey{Kind: kind, Namespace: namespace, Name: name},
		Generation:         integer(values, generationValue),
		ObservedGeneration: integer(values, observedValue),
		Desired:            integer(values, desiredValue),
		Total:              integer(values, totalValue),
		Updated:            integer(values, updatedValue),
		Available:          integer(values, availableValue),
	}
}

// RolledOut tells of each workload of a payload whether it runs what its spec says, as far as the agent has reported.
func RolledOut(payload *workv1.ManifestWork) map[delivery.WorkloadKey]bool {
	out := map[delivery.WorkloadKey]bool{}
	for _, m := range payload.Status.ResourceStatus.Manifests {
		if m.ResourceMeta.Kind != "Deployment" && m.ResourceMeta.Kind != "StatefulSet" {
			continue
		}
		s := workloadState(m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name, m.StatusFeedbacks.Values)
		done, _ := s.RolledOut()
		out[s.WorkloadKey] = done && s.Generation > 0 && !missing(m)
	}
	return out
}

func integer(values []workv1.FeedbackValue, name string) int64 {
	for _, v := range values {
		if v.Name == name && v.Value.Integer != nil {
			return *v.Value.Integer
		}
	}
	return 0
}

func isTrue(conditions []metav1.Condition, condition string) bool {
	return apimeta.IsStatusConditionTrue(conditions, condition)
}

// missing tells that the agent looked for the object on the cluster and did not find it.
func missing(m workv1.ManifestCondition) bool {
	c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "ResourceNotAvailable"
}
