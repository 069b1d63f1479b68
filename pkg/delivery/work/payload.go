// Copyright Contributors to the Open Cluster Management project

package work

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Payload is what addon-framework packs into the payload's work: everything but the foundation, and but the Jobs that
// have finished on the cluster and were removed there, as the foundation records; and the bundle's mark. The
// objects are the bundle's own and must not be changed.
func Payload(b *render.Bundle, foundation *workv1.ManifestWork) []runtime.Object {
	finishedJobs := FinishedJobs(foundation)
	out := make([]runtime.Object, 0, len(b.Payload)+1)
	for _, o := range b.Payload {
		if !leftOut(o, finishedJobs) {
			out = append(out, o.Unstructured)
		}
	}
	return append(out, mark(b))
}

func leftOut(o render.Object, finishedJobs []string) bool {
	return o.Class == render.OncePerVersion && slices.Contains(finishedJobs, jobName(o.GetNamespace(), o.GetName()))
}

func jobName(namespace, name string) string { return namespace + "/" + name }

// FinishedJobs reads the Jobs that a foundation records as finished and removed.
func FinishedJobs(foundation *workv1.ManifestWork) []string {
	list := foundation.Annotations[api.FinishedJobsAnnotation]
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// RemovedJobs are the Jobs of a payload that have finished and are gone from the cluster, sorted. As long as the payload
// carries them, its work counts as not available.
func RemovedJobs(payload *workv1.ManifestWork) []string {
	var out []string
	for _, m := range payload.Status.ResourceStatus.Manifests {
		if m.ResourceMeta.Kind == "Job" && isTrue(m.Conditions, workv1.ManifestComplete) && missing(m) {
			out = append(out, jobName(m.ResourceMeta.Namespace, m.ResourceMeta.Name))
		}
	}
	slices.Sort(out)
	return out
}
