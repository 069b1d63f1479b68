// Copyright Contributors to the Open Cluster Management project

package work

import (
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// The work agent decides what it owns when it applies a work, not when the work is deleted: an agent that finds a deleted
// work removes all that it owned before, whatever the work says by then. So what is left behind, or what is to be removed
// after all, must be applied once more before the work is deleted.

// IsOrphaned tells that the work was given up with everything in it.
func IsOrphaned(w *workv1.ManifestWork) bool { return w.Annotations[api.OrphanedAnnotation] != "" }

// Orphaned is the work without an owner, given up: once the agent has applied it, it can be deleted and nothing goes with it.
func Orphaned(w *workv1.ManifestWork) *workv1.ManifestWork {
	out := w.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[api.OrphanedAnnotation] = "true"
	delete(out.Annotations, api.HandoverAnnotation) // nobody is to have it any more
	out.OwnerReferences = nil
	out.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	return out
}

// notOrphaned is the work when the agent is to own all of it. It may have been given up before, by an add-on that is gone.
func notOrphaned(w *workv1.ManifestWork) *workv1.ManifestWork {
	out := w.DeepCopy()
	delete(out.Annotations, api.OrphanedAnnotation)
	out.Spec.DeleteOption = nil
	return out
}

// MayGo tells that a work whose objects are to stay can be deleted: the agent has applied every object as the work says now, or
// never saw the work. Objects of a kind that the cluster does not know are not there.
func MayGo(w *workv1.ManifestWork) bool {
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return true
	}
	if !observedBy(w, workv1.WorkApplied) {
		return false
	}
	return !slices.ContainsFunc(w.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool {
		c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
		return c == nil || c.Status != metav1.ConditionTrue && !kindMissing(c.Message)
	})
}

// OwningAll is the work when the agent is to remove everything with it, nil if it already says so.
func OwningAll(w *workv1.ManifestWork) *workv1.ManifestWork {
	if w.Spec.DeleteOption == nil {
		return nil
	}
	out := w.DeepCopy()
	delete(out.Annotations, api.KeptAnnotation)
	out.Spec.DeleteOption = nil
	return out
}

// Keeping is the foundation when CRDs and Namespace are to stay after all, nil if it already says so or if the agent never
// saw it. It may go when MayGo says so.
func Keeping(foundation *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	o := foundation.Spec.DeleteOption
	if o != nil && o.PropagationPolicy == workv1.DeletePropagationPolicyTypeSelectivelyOrphan || !slices.Contains(foundation.Finalizers, workv1.ManifestWorkFinalizer) {
		return nil, nil
	}
	manifests, err := manifestsOf(foundation)
	if err != nil {
		return nil, err
	}
	var kept []render.Object
	for _, m := range manifests {
		switch m.GetKind() {
		case "Namespace":
			kept = append(kept, render.Object{Unstructured: m, Orphan: true, Resource: schema.GroupVersionResource{Resource: "namespaces"}})
		case "CustomResourceDefinition":
			kept = append(kept, render.Object{Unstructured: m, Orphan: true, Resource: schema.GroupVersionResource{
				Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions",
			}})
		}
	}
	out := notOrphaned(foundation)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[api.KeptAnnotation] = "true"
	out.Spec.DeleteOption = orphan(kept)
	return out, nil
}

// Contents says what works carry: how many objects, and the names of what matters.
func Contents(works ...*workv1.ManifestWork) string {
	var objects, crds int
	var namespaces, workloads []string
	for _, w := range works {
		manifests, err := manifestsOf(w)
		if err != nil {
			continue // it is told in words, not acted upon
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
