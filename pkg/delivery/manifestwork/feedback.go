// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// Names of the values that the work agent reports on a Deployment or StatefulSet. The agent does not report a value that is
// absent on the cluster; the value counts as 0.
const (
	generationValue = "Generation"
	observedValue   = "ObservedGeneration"
	desiredValue    = "SpecReplicas"
	totalValue      = "Replicas"
	updatedValue    = "UpdatedReplicas"
	availableValue  = "AvailableReplicas"
	// terminatingValue is the number of pods that are being deleted.
	terminatingValue = "TerminatingReplicas"
)

// workloadFeedback returns the rules for a workload; available is the path of the number of available pods.
func workloadFeedback(available string) []workv1.FeedbackRule {
	return []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
		{Name: generationValue, Path: ".metadata.generation"},
		{Name: observedValue, Path: ".status.observedGeneration"},
		{Name: desiredValue, Path: ".spec.replicas"},
		{Name: totalValue, Path: ".status.replicas"},
		{Name: updatedValue, Path: ".status.updatedReplicas"},
		{Name: availableValue, Path: available},
		{Name: terminatingValue, Path: ".status.terminatingReplicas"},
	}}}
}

func workloadState(resource, namespace, name string, values []workv1.FeedbackValue) delivery.WorkloadState {
	kind := "Deployment"
	if resource == "statefulsets" {
		kind = "StatefulSet"
	}
	return delivery.WorkloadState{
		WorkloadKey: delivery.WorkloadKey{Kind: kind, Namespace: namespace, Name: name},
		State: workload.State{
			Generation:         integerValue(values, generationValue),
			ObservedGeneration: integerValue(values, observedValue),
			Desired:            integerValue(values, desiredValue),
			Total:              integerValue(values, totalValue),
			Updated:            integerValue(values, updatedValue),
			Available:          integerValue(values, availableValue),
			Terminating:        integerValue(values, terminatingValue),
		},
	}
}

// RolledOut reports for each workload of a payload whether the workload runs its spec, according to the agent's reports.
func RolledOut(payload *workv1.ManifestWork) map[delivery.WorkloadKey]bool {
	out := map[delivery.WorkloadKey]bool{}
	for _, m := range payload.Status.ResourceStatus.Manifests {
		if render.KindNamed(m.ResourceMeta.Kind).Feedback != render.WorkloadFeedback {
			continue
		}
		s := workloadState(m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name, m.StatusFeedbacks.Values)
		done, _ := s.RolledOut()
		out[s.WorkloadKey] = done && s.Generation > 0 && !isMissing(m)
	}
	return out
}

func integerValue(values []workv1.FeedbackValue, name string) int64 {
	for _, v := range values {
		if v.Name == name && v.Value.Integer != nil {
			return *v.Value.Integer
		}
	}
	return 0
}

// isMissing reports whether the agent did not find the object on the cluster.
func isMissing(m workv1.ManifestCondition) bool {
	c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "ResourceNotAvailable"
}
