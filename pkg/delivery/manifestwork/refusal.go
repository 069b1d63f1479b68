// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/message"
)

// maxRefusal is the number of bytes of a cause in the list of Refusals. The text comes from the cluster.
const maxRefusal = 300

// Refusals lists the objects of the works that the agent could not apply, each with the cause, sorted. Reports about an earlier
// generation of a work do not count.
func Refusals(works ...*workv1.ManifestWork) []string {
	var out []string
	for _, w := range works {
		if w == nil || !observedBy(w, workv1.WorkApplied) {
			continue
		}
		for _, m := range w.Status.ResourceStatus.Manifests {
			if text, refused := refusalOf(m); refused {
				out = append(out, text)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// UnservedObjects lists the objects of the works that the agent could not apply because the cluster does not know their kinds, sorted.
// Reports about an earlier generation of a work do not count.
func UnservedObjects(works ...*workv1.ManifestWork) []string {
	var out []string
	for _, w := range works {
		if w == nil || !observedBy(w, workv1.WorkApplied) {
			continue
		}
		for _, f := range listFailures(w) {
			if f.KindMissing {
				out = append(out, message.OneLine(f.Object, maxRefusal))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// refusalOf names an object that the agent could not apply, with the cause; refused is false for any other object.
func refusalOf(m workv1.ManifestCondition) (text string, refused bool) {
	c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
	if c == nil || c.Status != metav1.ConditionFalse {
		return "", false
	}
	return message.OneLine(objectName(m.ResourceMeta)+" was not applied: "+c.Message, maxRefusal), true
}
