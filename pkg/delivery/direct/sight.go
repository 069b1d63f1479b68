// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// fieldManager is the name under which objects are applied.
const fieldManager = "knative-addon"

// sight is what is kept of an object that was seen: little, since there are many.
type sight struct {
	metav1.ObjectMeta

	// fields is the digest of the fields that are ours.
	fields string
	// workload and job are set for their kinds.
	workload *delivery.WorkloadState
	job      *delivery.JobState
}

func (s *sight) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// sightOf makes a sight of what a list or watch delivers.
func sightOf(o runtime.Object) (*sight, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		return newSight(&o.ObjectMeta), nil
	case *unstructured.Unstructured:
		return workloadSight(o)
	}
	return nil, fmt.Errorf("cannot look at a %T", o)
}

func newSight(m *metav1.ObjectMeta) *sight {
	return &sight{fields: ownedFields(m.ManagedFields), ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
		Labels: map[string]string{api.ComponentLabel: m.Labels[api.ComponentLabel]},
	}}
}

// ownedFields is the digest of the fields that the API server takes for ours; empty when there are none. They are in any
// order: the API server has its own, and a client that decodes them another.
func ownedFields(managers []metav1.ManagedFieldsEntry) string {
	for _, m := range managers {
		if m.Manager != fieldManager || m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var fields any
		if json.Unmarshal(m.FieldsV1.Raw, &fields) != nil {
			return digestOf(m.FieldsV1.Raw)
		}
		canonical, err := json.Marshal(fields)
		if err != nil {
			return digestOf(m.FieldsV1.Raw)
		}
		return digestOf(canonical)
	}
	return ""
}

func workloadSight(u *unstructured.Unstructured) (*sight, error) {
	var partial metav1.PartialObjectMetadata
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": u.Object["metadata"]}, &partial); err != nil {
		return nil, fmt.Errorf("cannot read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	out := newSight(&partial.ObjectMeta)
	var err error
	switch u.GetKind() {
	case "Deployment":
		var d appsv1.Deployment
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err == nil {
			out.workload = deploymentState(&d)
		}
	case "StatefulSet":
		var s appsv1.StatefulSet
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err == nil {
			out.workload = statefulSetState(&s)
		}
	case "Job":
		var j batchv1.Job
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &j); err == nil {
			out.job = &delivery.JobState{
				JobRef:   render.JobRef{Namespace: j.Namespace, Name: j.Name},
				Complete: hasCondition(j.Status.Conditions, batchv1.JobComplete), Failed: hasCondition(j.Status.Conditions, batchv1.JobFailed),
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return out, nil
}

func deploymentState(d *appsv1.Deployment) *delivery.WorkloadState {
	return &delivery.WorkloadState{
		WorkloadKey: delivery.WorkloadKey{Kind: "Deployment", Namespace: d.Namespace, Name: d.Name},
		Generation:  d.Generation, ObservedGeneration: d.Status.ObservedGeneration, Desired: replicas(d.Spec.Replicas),
		Total: int64(d.Status.Replicas), Updated: int64(d.Status.UpdatedReplicas), Available: int64(d.Status.AvailableReplicas),
	}
}

func statefulSetState(s *appsv1.StatefulSet) *delivery.WorkloadState {
	return &delivery.WorkloadState{
		WorkloadKey: delivery.WorkloadKey{Kind: "StatefulSet", Namespace: s.Namespace, Name: s.Name},
		Generation:  s.Generation, ObservedGeneration: s.Status.ObservedGeneration, Desired: replicas(s.Spec.Replicas),
		Total: int64(s.Status.Replicas), Updated: int64(s.Status.UpdatedReplicas), Available: int64(s.Status.AvailableReplicas),
	}
}

func replicas(n *int32) int64 {
	if n == nil {
		return 1
	}
	return int64(*n)
}

func hasCondition(conditions []batchv1.JobCondition, t batchv1.JobConditionType) bool {
	for _, c := range conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// needsStatus tells whether metadata is not enough to know the state of a resource's objects.
func needsStatus(gvr schema.GroupVersionResource) bool {
	switch gvr.GroupResource() {
	case schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Group: "apps", Resource: "statefulsets"},
		schema.GroupResource{Group: "batch", Resource: "jobs"}:
		return true
	}
	return false
}
