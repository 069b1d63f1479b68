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
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// Observe returns the state of the bundle in the status of a cluster's works. foundation is nil when the work does not
// exist.
func Observe(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) delivery.Observation {
	payloads = slices.SortedFunc(slices.Values(payloads), func(x, y *workv1.ManifestWork) int { return strings.Compare(x.Name, y.Name) })
	o := delivery.Observation{Waiting: waitingFor(b, foundation, payloads)}
	works := slices.Clone(payloads)
	if foundation != nil {
		works = append(works, foundation)
		o.FinishedJobs = jobRefs(FinishedJobs(foundation))
	}
	for _, w := range works {
		if observedBy(w, workv1.WorkApplied) {
			o.Failed = append(o.Failed, listFailures(w)...)
		}
	}
	for _, p := range payloads {
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&o, m)
		}
	}
	return o
}

// waitingFor names the next event before the works' status describes the bundle.
func waitingFor(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) string {
	name := FoundationName(b.Component)
	switch {
	case foundation == nil || foundation.DeletionTimestamp != nil:
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs, to be created", name)
	case IsProbe(foundation):
		if why := FoundBy(foundation).Waiting; why != "" {
			return why
		}
		return fmt.Sprintf("waiting for ManifestWork %q to report whether the cluster has %s", foundation.Name, b.Component)
	case foundation.Annotations[api.DigestAnnotation] != b.FoundationDigest:
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs, to be updated", name)
	}
	if applied, why := Applied(foundation); !applied {
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs: %s", name, why)
	}
	if !MatchBundle(payloads, b, foundation) {
		return AwaitedPayload(payloads, b, foundation)
	}
	for _, p := range payloads {
		// Conditions of the latest generation: the agent observes after applying, so that Available comes last.
		if !observedBy(p, workv1.WorkApplied) {
			return fmt.Sprintf("waiting for the work agent to apply ManifestWork %q", p.Name)
		}
		if !observedBy(p, workv1.WorkAvailable) {
			return fmt.Sprintf("waiting for the work agent to report on ManifestWork %q", p.Name)
		}
	}
	if !observedAfterApply(payloads, b) {
		return "waiting for the work agent to report on the applied objects"
	}
	return ""
}

func listFailures(w *workv1.ManifestWork) []delivery.Failure {
	var out []delivery.Failure
	for _, m := range w.Status.ResourceStatus.Manifests {
		c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		out = append(out, delivery.Failure{
			Object: strings.TrimSpace(objectName(m.ResourceMeta)), Cause: c.Message, KindMissing: saysKindMissing(c.Message), Since: c.LastTransitionTime.Time,
		})
	}
	return out
}

// saysKindMissing recognizes the messages of API machinery for a kind that the cluster does not serve. The agent reports
// text only.
func saysKindMissing(message string) bool {
	return slices.ContainsFunc([]string{
		"no matches for kind", "the server doesn't have a resource type", "the server could not find the requested resource",
	}, func(text string) bool { return strings.Contains(message, text) })
}

func observeManifest(o *delivery.Observation, m workv1.ManifestCondition) {
	switch render.KindNamed(m.ResourceMeta.Kind).Feedback {
	case render.WorkloadFeedback:
		seen := workloadState(m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name, m.StatusFeedbacks.Values)
		if !isMissing(m) && seen.Generation > 0 { // generation 0 means no report yet
			o.Workloads = append(o.Workloads, seen)
		}
	case render.JobFeedback:
		o.Jobs = append(o.Jobs, delivery.JobState{
			JobRef:   workload.JobRef{Namespace: m.ResourceMeta.Namespace, Name: m.ResourceMeta.Name},
			Complete: hasFinished(m), Failed: apimeta.IsStatusConditionTrue(m.Conditions, jobFailedCondition),
		})
	case render.NoFeedback:
	}
}

func jobRefs(names []string) []workload.JobRef {
	var out []workload.JobRef
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		out = append(out, workload.JobRef{Namespace: namespace, Name: name})
	}
	return out
}
