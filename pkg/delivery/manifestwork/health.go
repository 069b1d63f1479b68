// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"fmt"
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

// AreAvailable reports whether enough pods of each workload in the payloads are available, whatever their spec. ok is false when the agent
// has not reported on the present manifests of each payload.
func AreAvailable(payloads []*workv1.ManifestWork) (available, ok bool) {
	for _, p := range payloads {
		if !observedBy(p, workv1.WorkAvailable) {
			return false, false
		}
		for _, m := range p.Status.ResourceStatus.Manifests {
			if render.KindNamed(m.ResourceMeta.Kind).Feedback != render.WorkloadFeedback {
				continue
			}
			s := workloadState(m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name, m.StatusFeedbacks.Values)
			if isMissing(m) || !s.IsAvailable() {
				return false, true
			}
		}
	}
	return true, len(payloads) > 0
}

// isAbsent reports whether an object is missing on the cluster. Workloads have reports of their own, and finished Jobs may
// be removed.
func isAbsent(m workv1.ManifestCondition) bool {
	return render.KindNamed(m.ResourceMeta.Kind).Feedback == render.NoFeedback && isMissing(m)
}

// Drifted lists the applied objects that are gone, and the workloads with another number of replicas than in the work:
// sorted, each with the deviation. The list is empty until the agent has applied the latest generation of the work and has
// observed the result. workloads are the expected workloads of the cluster.
func Drifted(w *workv1.ManifestWork, workloads []workload.Expected) []string {
	if applied, _ := Applied(w); !applied || !observedBy(w, workv1.WorkAvailable) {
		return nil
	}
	var out []string
	for _, m := range w.Status.ResourceStatus.Manifests {
		if isAbsent(m) {
			out = append(out, objectName(m.ResourceMeta)+" is gone")
			continue
		}
		i := slices.IndexFunc(workloads, func(w workload.Expected) bool {
			return w.Kind == m.ResourceMeta.Kind && w.Namespace == m.ResourceMeta.Namespace && w.Name == m.ResourceMeta.Name
		})
		if i < 0 {
			continue
		}
		want := workloads[i]
		if isMissing(m) {
			out = append(out, fmt.Sprintf("%s %s/%s is gone", want.Kind, want.Namespace, want.Name))
			continue
		}
		seen := workloadState(m.ResourceMeta.Resource, want.Namespace, want.Name, m.StatusFeedbacks.Values)
		if want.Replicas != nil && seen.Generation > 0 && seen.Desired != int64(*want.Replicas) {
			out = append(out, fmt.Sprintf("%s %s/%s is scaled to %d instead of %d", want.Kind, want.Namespace, want.Name, seen.Desired, *want.Replicas))
		}
	}
	slices.Sort(out)
	return out
}
