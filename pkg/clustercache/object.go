// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unique"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// FieldManager is the field manager of this add-on.
const FieldManager = "knative-addon"

// Object is the cached state of an object. The cache holds many objects, and few fields of each.
type Object struct {
	Namespace, Name   string
	UID               types.UID
	ResourceVersion   string
	DeletionTimestamp *metav1.Time

	// Component is the value of our component label.
	Component api.Component
	// FieldsDigest is the digest of the fields that FieldManager owns, empty without such fields.
	FieldsDigest string
	// Workload is set for Deployments and StatefulSets, Job for Jobs.
	Workload *workload.State
	Job      *Job
	// Service is set for Services of Knative.
	Service *workload.ServiceState
}

// Job is the state of a Job.
type Job struct{ Complete, Failed bool }

// Digest returns a digest of byte strings. A separator follows each string, so that moving bytes between two strings changes
// the digest.
func Digest(parts ...[]byte) string {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write(p)
		sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// hasStateOf reports whether the objects differ in nothing but the resource version. Controllers of the cluster write the status of some
// objects all the time, as of HorizontalPodAutoscalers, and the cache has no part of that status. A nil object has no state.
func (s *Object) hasStateOf(other *Object) bool {
	return s != nil && s.UID == other.UID && s.Component == other.Component && s.FieldsDigest == other.FieldsDigest &&
		(s.DeletionTimestamp == nil) == (other.DeletionTimestamp == nil) && ptr.Equal(s.Workload, other.Workload) && ptr.Equal(s.Job, other.Job) &&
		ptr.Equal(s.Service, other.Service)
}

func (s *Object) namespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// ReadObject returns the state of an object of a list or watch. The error may be a *BoundError.
func ReadObject(o runtime.Object) (*Object, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		return newObject(&o.ObjectMeta), CheckMetadata(&o.ObjectMeta)
	case *unstructured.Unstructured:
		return readWorkload(o)
	}
	return nil, fmt.Errorf("cannot read a %T", o)
}

// newObject returns an object without state. The texts that are equal on all clusters are in memory once.
func newObject(m *metav1.ObjectMeta) *Object {
	shared := func(text string) string { return unique.Make(text).Value() }
	return &Object{
		Namespace: shared(m.Namespace), Name: shared(m.Name), UID: m.UID, ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
		FieldsDigest: shared(DigestOwnedFields(m.ManagedFields)), Component: api.Component(shared(m.Labels[api.ComponentLabel])),
	}
}

// DigestOwnedFields returns the digest of the fields that FieldManager owns by apply, or an empty text without such fields. The
// digest is of sorted fields: the API server and decoding clients order fields differently.
func DigestOwnedFields(managers []metav1.ManagedFieldsEntry) string {
	for _, m := range managers {
		if m.Manager != FieldManager || m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var fields any
		if json.Unmarshal(m.FieldsV1.Raw, &fields) != nil {
			return Digest(m.FieldsV1.Raw)
		}
		canonical, err := json.Marshal(fields)
		if err != nil {
			return Digest(m.FieldsV1.Raw)
		}
		return Digest(canonical)
	}
	return ""
}

func readWorkload(u *unstructured.Unstructured) (*Object, error) {
	var partial metav1.PartialObjectMetadata
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": u.Object["metadata"]}, &partial); err != nil {
		return nil, fmt.Errorf("cannot read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	out := newObject(&partial.ObjectMeta)
	err := CheckMetadata(&partial.ObjectMeta)
	if err != nil {
		return nil, err
	}
	// Only these fields are decoded: other fields of a hostile cluster could take far more memory.
	var w workloadFields
	kind := u.GetKind()
	switch kind {
	case "Deployment", "StatefulSet", "Job":
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &w); err != nil {
			return nil, fmt.Errorf("cannot read %s %q: %w", kind, u.GetName(), err)
		}
	}
	switch kind {
	case "Deployment", "StatefulSet":
		out.Workload = &workload.State{
			Generation: partial.Generation, ObservedGeneration: w.Status.ObservedGeneration, Desired: desiredReplicas(w.Spec.Replicas),
			Total: int64(w.Status.Replicas), Updated: int64(w.Status.UpdatedReplicas), Available: int64(w.Status.AvailableReplicas),
		}
	case "Job":
		out.Job = &Job{
			Complete: w.hasCondition(batchv1.JobComplete), Failed: w.hasCondition(batchv1.JobFailed),
		}
	case "Service":
		out.Service = readService(u)
	}
	return out, nil
}

// maxServiceText is the number of bytes of each text of a Service that the cache keeps.
const maxServiceText = 512

// readService returns the state of a Service of Knative.
func readService(u *unstructured.Unstructured) *workload.ServiceState {
	text := func(fields map[string]any, name string) string {
		value, _ := fields[name].(string)
		return cutText(value, maxServiceText)
	}
	field := func(fields ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(u.Object, fields...) // a value of another type counts as absent
		return value
	}
	annotations, _ := field("spec", "template", "metadata", "annotations").(map[string]any)
	observed, _ := field("status", "observedGeneration").(int64)
	conditions, _ := field("status", "conditions").([]any)
	out := &workload.ServiceState{Verifies: text(annotations, api.VerifiesAnnotation), Generation: u.GetGeneration(), ObservedGeneration: observed}
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == "Ready" {
			out.Ready, out.Reason, out.Message = text(condition, "status"), text(condition, "reason"), text(condition, "message")
		}
	}
	return out
}

// workloadFields are the fields of Deployments, StatefulSets and Jobs that hold the state of the workload.
type workloadFields struct {
	Spec struct {
		Replicas *int32 `json:"replicas,omitempty"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration,omitempty"`
		Replicas           int32 `json:"replicas,omitempty"`
		UpdatedReplicas    int32 `json:"updatedReplicas,omitempty"`
		AvailableReplicas  int32 `json:"availableReplicas,omitempty"`
		Conditions         []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions,omitempty"`
	} `json:"status"`
}

func desiredReplicas(n *int32) int64 {
	if n == nil {
		return 1
	}
	return int64(*n)
}

func (w *workloadFields) hasCondition(t batchv1.JobConditionType) bool {
	for _, c := range w.Status.Conditions {
		if c.Type == string(t) {
			return c.Status == string(corev1.ConditionTrue)
		}
	}
	return false
}

// isWorkload reports whether the objects of a resource are workloads, whose pods may fail at any time.
func isWorkload(gvr schema.GroupVersionResource) bool {
	return gvr.Group == "apps" && (gvr.Resource == "deployments" || gvr.Resource == "statefulsets")
}

// isUnfinished reports whether an object is a Job that has not finished, or a Service of Knative that is not Ready.
func (s *Object) isUnfinished() bool {
	return s.Job != nil && !s.Job.Complete && !s.Job.Failed || s.Service != nil && s.Service.Ready != string(corev1.ConditionTrue)
}

// needsStatus reports whether the cache needs the status of a resource's objects besides their metadata.
func needsStatus(gvr schema.GroupVersionResource) bool {
	switch gvr.GroupResource() {
	case schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Group: "apps", Resource: "statefulsets"},
		schema.GroupResource{Group: "batch", Resource: "jobs"}, schema.GroupResource{Group: "serving.knative.dev", Resource: "services"}:
		return true
	}
	return false
}
