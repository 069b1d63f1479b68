// Copyright Contributors to the Open Cluster Management project

package played

import (
	"fmt"
	"path"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"
)

// appliedStatus returns the status that a work agent reports for an applied work.
func appliedStatus(w *workv1.ManifestWork) (workv1.ManifestWorkStatus, error) {
	status := workv1.ManifestWorkStatus{Conditions: w.DeepCopy().Status.Conditions}
	before := map[workv1.ManifestResourceMeta]workv1.ManifestCondition{}
	for _, m := range w.Status.ResourceStatus.Manifests {
		before[m.ResourceMeta] = m
	}
	for i, manifest := range w.Spec.Workload.Manifests {
		object, err := decodeManifest(manifest)
		if err != nil {
			return status, err
		}
		meta := buildResourceMeta(i, object)
		had := before[meta]
		c := workv1.ManifestCondition{ResourceMeta: meta, Conditions: had.DeepCopy().Conditions, StatusFeedbacks: had.StatusFeedbacks}
		apimeta.SetStatusCondition(&c.Conditions, metav1.Condition{
			Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete", Message: "Apply manifest complete",
		})
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, c)
	}
	apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: w.Generation,
		Reason: "AppliedManifestWorkComplete", Message: "Apply manifest work complete",
	})
	return status, nil
}

// rootCertificates is a ConfigMap that every namespace of a cluster has.
const rootCertificates = "kube-root-ca.crt"

// observedStatus returns the status that a work agent reports for an applied work after the agent has read the objects. All workloads
// are rolled out, and all Jobs have finished. Of the objects that the work only refers to, only rootCertificates exist.
func observedStatus(w *workv1.ManifestWork) (workv1.ManifestWorkStatus, error) {
	status := w.DeepCopy().Status
	available := metav1.Condition{
		Type: workv1.WorkAvailable, Status: metav1.ConditionTrue, ObservedGeneration: w.Generation,
		Reason: "ResourcesAvailable", Message: "All resources are available",
	}
	for i := range status.ResourceStatus.Manifests {
		m := &status.ResourceStatus.Manifests[i]
		options := findOptions(w, m.ResourceMeta)
		if options.readOnly && m.ResourceMeta.Name != rootCertificates {
			apimeta.SetStatusCondition(&m.Conditions, metav1.Condition{
				Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable", Message: "Resource is not available",
			})
			available.Status, available.Reason, available.Message = metav1.ConditionFalse, "ResourcesNotAvailable", "1 of all resources is not available"
			continue
		}
		apimeta.SetStatusCondition(&m.Conditions, metav1.Condition{
			Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue, Reason: "ResourceAvailable", Message: "Resource is available",
		})
		synced := metav1.Condition{Type: "StatusFeedbackSynced", Status: metav1.ConditionTrue, Reason: "NoStatusFeedbackSynced"}
		if len(options.feedback) > 0 {
			object, err := decodeManifest(w.Spec.Workload.Manifests[i])
			if err != nil {
				return status, err
			}
			setRolledOut(object)
			m.StatusFeedbacks.Values = readFeedback(object, options.feedback)
			synced.Reason = "StatusFeedbackSynced"
		}
		apimeta.SetStatusCondition(&m.Conditions, synced)
		for _, r := range options.rules {
			apimeta.SetStatusCondition(&m.Conditions, evaluateRule(r, m.ResourceMeta.Kind, w.Generation))
		}
	}
	apimeta.SetStatusCondition(&status.Conditions, available)
	return status, nil
}

func decodeManifest(manifest workv1.Manifest) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(manifest.Raw); err != nil {
		return nil, fmt.Errorf("cannot read a manifest: %w", err)
	}
	return object, nil
}

func buildResourceMeta(ordinal int, object *unstructured.Unstructured) workv1.ManifestResourceMeta {
	kind := object.GroupVersionKind()
	resource, _ := apimeta.UnsafeGuessKindToResource(kind)
	return workv1.ManifestResourceMeta{
		Ordinal: int32(ordinal), Group: kind.Group, Version: kind.Version, Kind: kind.Kind, //nolint:gosec // a work has hundreds
		Resource: resource.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
	}
}

// manifestOptions are the options of a work for one manifest.
type manifestOptions struct {
	feedback []workv1.FeedbackRule
	rules    []workv1.ConditionRule
	// readOnly reports that the agent reads the object and does not write the object.
	readOnly bool
}

// findOptions returns the options for a manifest: feedback rules and condition rules are those of the first entry that matches and has
// such rules.
func findOptions(w *workv1.ManifestWork, m workv1.ManifestResourceMeta) manifestOptions {
	var out manifestOptions
	for _, c := range w.Spec.ManifestConfigs {
		id := c.ResourceIdentifier
		if id.Group != m.Group || id.Resource != m.Resource || !matchesPattern(id.Namespace, m.Namespace) || !matchesPattern(id.Name, m.Name) {
			continue
		}
		if out.feedback == nil {
			out.feedback = c.FeedbackRules
		}
		if out.rules == nil {
			out.rules = c.ConditionRules
		}
		if c.UpdateStrategy != nil && c.UpdateStrategy.Type == workv1.UpdateStrategyTypeReadOnly {
			out.readOnly = true
		}
	}
	return out
}

func matchesPattern(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// setRolledOut gives a workload the status of a workload whose pods all run.
func setRolledOut(object *unstructured.Unstructured) {
	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if !found || err != nil {
		replicas = 1
		_ = unstructured.SetNestedField(object.Object, replicas, "spec", "replicas")
	}
	object.SetGeneration(1)
	object.Object["status"] = map[string]any{
		"observedGeneration": int64(1), "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas, "readyReplicas": replicas,
	}
}

// readFeedback returns the values of an object that the rules select.
func readFeedback(object *unstructured.Unstructured, rules []workv1.FeedbackRule) []workv1.FeedbackValue {
	var out []workv1.FeedbackValue
	for _, r := range rules {
		for _, p := range r.JsonPaths {
			n, found, err := unstructured.NestedInt64(object.Object, strings.Split(strings.TrimPrefix(p.Path, "."), ".")...)
			if found && err == nil {
				out = append(out, workv1.FeedbackValue{Name: p.Name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: &n}})
			}
		}
	}
	return out
}

// evaluateRule returns the condition of a rule for a manifest of the kind.
func evaluateRule(r workv1.ConditionRule, kind string, generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: r.Condition, Status: metav1.ConditionFalse, Reason: "ConditionRuleEvaluated", ObservedGeneration: generation,
		Message: "the rule says so",
	}
	if r.Condition == "Finished" && kind == "Job" {
		c.Status = metav1.ConditionTrue
	}
	return c
}
