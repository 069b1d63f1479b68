// Copyright Contributors to the Open Cluster Management project

package work

import (
	"fmt"
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// Drifted are the objects that the agent has applied and that are gone since, and the workloads that have another number of
// replicas than the work says: sorted, each with what is wrong. It is empty as long as the agent has not applied the work
// as it is now and looked at the result.
func Drifted(payload *workv1.ManifestWork, b *render.Bundle) []string {
	if applied, _ := Applied(payload); !applied || !observedBy(payload, workv1.WorkAvailable) {
		return nil
	}
	var out []string
	for _, m := range payload.Status.ResourceStatus.Manifests {
		if isAbsent(m) {
			out = append(out, objectName(m.ResourceMeta)+" is gone")
			continue
		}
		i := slices.IndexFunc(b.Workloads, func(w render.Workload) bool {
			return w.Kind == m.ResourceMeta.Kind && w.Namespace == m.ResourceMeta.Namespace && w.Name == m.ResourceMeta.Name
		})
		if i < 0 {
			continue
		}
		w := b.Workloads[i]
		if missing(m) {
			out = append(out, fmt.Sprintf("%s %s/%s is gone", w.Kind, w.Namespace, w.Name))
			continue
		}
		seen := workloadState(m.ResourceMeta.Resource, w.Namespace, w.Name, m.StatusFeedbacks.Values)
		if w.Replicas != nil && seen.Generation > 0 && seen.Desired != int64(*w.Replicas) {
			out = append(out, fmt.Sprintf("%s %s/%s is scaled to %d instead of %d", w.Kind, w.Namespace, w.Name, seen.Desired, *w.Replicas))
		}
	}
	slices.Sort(out)
	return out
}
