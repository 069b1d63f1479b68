// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// The work agent decides about ownership when the agent applies a work, not when the work is deleted: an agent that finds a
// deleted work removes all objects that the work owned before, whatever the spec of the deleted work says. Therefore the
// agent must apply a changed delete option before the work is deleted.

// IsOrphaned reports whether the work leaves all objects on the cluster.
func IsOrphaned(w *workv1.ManifestWork) bool { return w.Annotations[api.OrphanedAnnotation] != "" }

// Orphaned returns the work without an owner and with the option to orphan all objects: when the agent has applied this
// work, a deletion removes no object.
func Orphaned(w *workv1.ManifestWork) *workv1.ManifestWork {
	out := w.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, api.OrphanedAnnotation, "true")
	delete(out.Annotations, api.HandoverAnnotation) // no hub takes the work over
	out.OwnerReferences = nil
	dropCompleteRules(out)
	dropReadOnly(out)
	out.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	return out
}

// notOrphaned returns the work with ownership of all objects, which the agent writes. A former add-on may have orphaned the work, and an
// older manager may have written rules for Complete.
func notOrphaned(w *workv1.ManifestWork) *workv1.ManifestWork {
	out := w.DeepCopy()
	delete(out.Annotations, api.OrphanedAnnotation)
	dropCompleteRules(out)
	dropReadOnly(out)
	out.Spec.DeleteOption = nil
	return out
}

// HasAgent reports whether a deletion of the work waits for the work agent.
func HasAgent(w *workv1.ManifestWork) bool {
	return slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer)
}

// WithoutAgent returns the work without the finalizer of the work agent: a deletion does not wait for the agent.
func WithoutAgent(w *workv1.ManifestWork) *workv1.ManifestWork {
	out := w.DeepCopy()
	out.Finalizers = slices.DeleteFunc(out.Finalizers, func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	return out
}

// IsDeletable reports whether a work that leaves objects on the cluster can be deleted: the agent has applied every object by the
// latest spec, or has never seen the work. Objects of a kind that the cluster does not serve do not exist.
func IsDeletable(w *workv1.ManifestWork) bool {
	if !HasAgent(w) {
		return true
	}
	if !observedBy(w, workv1.WorkApplied) {
		return false
	}
	return !slices.ContainsFunc(w.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool {
		c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
		return c == nil || c.Status != metav1.ConditionTrue && !saysKindMissing(c.Message)
	})
}

// OwningCreated returns the foundation with the option to remove all objects that the cluster did not have before; nil when
// the foundation already has the option.
func OwningCreated(foundation *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	rules, err := keepRules(foundation, true)
	if err != nil || keepsExactly(foundation, rules) {
		return nil, err
	}
	out := notOrphaned(foundation)
	delete(out.Annotations, api.KeptAnnotation)
	out.Spec.DeleteOption = keepOption(rules)
	return out, nil
}

// KeepCRDs returns the foundation with the option to keep CRDs and Namespace; nil when the foundation already has the option
// or when the agent has never seen the foundation. IsDeletable reports when the foundation can be deleted.
func KeepCRDs(foundation *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if !HasAgent(foundation) {
		return nil, nil
	}
	rules, err := keepRules(foundation, false)
	if err != nil || keepsExactly(foundation, rules) {
		return nil, err
	}
	out := notOrphaned(foundation)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, api.KeptAnnotation, "true")
	out.Spec.DeleteOption = keepOption(rules)
	return out, nil
}

// keepsExactly reports whether the work keeps exactly the objects of the rules and owns the rest.
func keepsExactly(w *workv1.ManifestWork, rules []workv1.OrphaningRule) bool {
	o := w.Spec.DeleteOption
	switch {
	case o == nil:
		return len(rules) == 0
	case o.PropagationPolicy != workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		return false
	case o.SelectivelyOrphan == nil:
		return len(rules) == 0
	}
	return slices.Equal(o.SelectivelyOrphan.OrphaningRules, rules)
}

// keepOption keeps the objects of the rules on the cluster after the removal of the work.
func keepOption(rules []workv1.OrphaningRule) *workv1.DeleteOption {
	if len(rules) == 0 {
		return nil
	}
	return &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: rules},
	}
}

// Contents describes works in a message: the number of objects, and the names of Namespaces and workloads.
func Contents(works ...*workv1.ManifestWork) string {
	var objects, crds int
	var namespaces, workloads []string
	for _, w := range works {
		manifests, err := manifestsOf(w)
		if err != nil {
			continue // the text only informs
		}
		objects += len(manifests)
		for _, m := range manifests {
			switch m.GetKind() {
			case "CustomResourceDefinition":
				crds++
			case "Namespace":
				namespaces = append(namespaces, m.GetName())
			case "Deployment", "StatefulSet":
				workloads = append(workloads, m.GetName())
			}
		}
	}
	slices.Sort(workloads)
	out := fmt.Sprintf("%d objects, among them %d CRDs", objects, crds)
	if len(namespaces) > 0 {
		out += ", Namespace " + strings.Join(namespaces, ", ")
	}
	if len(workloads) > 0 {
		out += "; workloads: " + strings.Join(workloads, ", ")
	}
	return out
}
