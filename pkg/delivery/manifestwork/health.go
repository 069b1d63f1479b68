// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// Runs reports whether the cluster runs the bundle, according to the agent's reports.
func Runs(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) bool {
	o := Observe(b, foundation, payloads)
	return o.Waiting == "" && len(o.Failed) == 0 && len(o.NotReady(b.Workloads, b.Jobs)) == 0
}

// observedAfterApply reports whether the agent has observed the objects after applying the payloads of the bundle. The
// agent also observes before and then reports earlier objects under the new generation; but the agent observes the objects
// of the last application, so that a report on the mark of this bundle comes after.
func observedAfterApply(payloads []*workv1.ManifestWork, b *render.Bundle) bool {
	return slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool {
		m := findManifest(p, bundleMark(b))
		return m != nil && apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable) != nil
	})
}

// Health lists the reasons why an add-on with these works is not Available, sorted; empty for a healthy add-on. ok is false
// when the agent has not reported on any workload. workloads are the expected workloads of the cluster. An object that the agent
// could not apply is not gone: the cluster has refused the object.
func Health(workloads []workload.Expected, payloads []*workv1.ManifestWork) (wrong []string, ok bool) {
	var seen []delivery.WorkloadState
	refused := map[string]bool{}
	for _, p := range payloads {
		o := delivery.Observation{}
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&o, m)
			refusal, isRefused := refusalOf(m)
			switch {
			case isMissing(m) && isRefused:
				wrong = append(wrong, refusal)
				refused[objectName(m.ResourceMeta)] = true
			case isAbsent(m):
				wrong = append(wrong, objectName(m.ResourceMeta)+": the object is gone")
			}
		}
		seen = append(seen, o.Workloads...)
	}
	expected := slices.DeleteFunc(slices.Clone(workloads), func(w workload.Expected) bool {
		return refused[objectName(workv1.ManifestResourceMeta{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name})]
	})
	wrong = append(wrong, delivery.NotRolledOut(expected, seen)...)
	slices.Sort(wrong)
	return wrong, len(seen) > 0 || len(expected) == 0
}

// isAbsent reports whether an object is missing on the cluster. Workloads have reports of their own, and finished Jobs may
// be removed.
func isAbsent(m workv1.ManifestCondition) bool {
	return render.KindNamed(m.ResourceMeta.Kind).Feedback == render.NoFeedback && isMissing(m)
}
