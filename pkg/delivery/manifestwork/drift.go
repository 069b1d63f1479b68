// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"fmt"
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

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
