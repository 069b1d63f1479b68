// Copyright Contributors to the Open Cluster Management project

package work

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Observe reads from the status of a cluster's works what is known there of the bundle. foundation is nil when there is
// none.
func Observe(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) delivery.Observation {
	payloads = slices.SortedFunc(slices.Values(payloads), func(x, y *workv1.ManifestWork) int { return strings.Compare(x.Name, y.Name) })
	o := delivery.Observation{Waiting: waiting(b, foundation, payloads)}
	works := slices.Clone(payloads)
	if foundation != nil {
		works = append(works, foundation)
		o.FinishedJobs = jobRefs(FinishedJobs(foundation))
	}
	for _, w := range works {
		if observedBy(w, workv1.WorkApplied) {
			o.Failed = append(o.Failed, failures(w)...)
		}
	}
	for _, p := range payloads {
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&o, m)
		}
	}
	return o
}

// waiting says what has to happen before the works' status tells of the bundle.
func waiting(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) string {
	name := FoundationName(b.Component)
	switch {
	case foundation == nil || foundation.DeletionTimestamp != nil:
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs, to be created", name)
	case IsProbe(foundation):
		if why := FoundBy(foundation).Waiting; why != "" {
			return why
		}
		return fmt.Sprintf("waiting for ManifestWork %q to tell whether the cluster has %s already", name, b.Component)
	case foundation.Annotations[api.DigestAnnotation] != b.FoundationDigest:
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs, to be updated", name)
	}
	if applied, why := Applied(foundation); !applied {
		return fmt.Sprintf("waiting for ManifestWork %q, which carries the CRDs: %s", name, why)
	}
	if !Carry(payloads, b, foundation) {
		return "waiting for the ManifestWork of the payload to be written"
	}
	for _, p := range payloads {
		// Conditions of the present generation: the agent looks after it has applied, so Available comes last.
		if !observedBy(p, workv1.WorkApplied) {
			return fmt.Sprintf("waiting for the work agent to apply ManifestWork %q", p.Name)
		}
		if !observedBy(p, workv1.WorkAvailable) {
			return fmt.Sprintf("waiting for the work agent to report on ManifestWork %q", p.Name)
		}
	}
	if !lookedAfterApply(payloads, b) {
		return "waiting for the work agent to report on what it has applied"
	}
	return ""
}

// Carry tells whether the payloads together are exactly the payload of the bundle.
func Carry(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	finishedJobs := FinishedJobs(foundation)
	missing := make(map[string]struct{}, len(b.Payload)+1)
	missing[string(toJSON(mark(b)))] = struct{}{}
	for _, o := range b.Payload {
		if !leftOut(o, finishedJobs) {
			missing[string(o.JSON)] = struct{}{}
		}
	}
	for _, p := range payloads {
		for _, m := range p.Spec.Workload.Manifests {
			text, ok := known(missing, m.Raw)
			if !ok {
				return false
			}
			delete(missing, text)
		}
	}
	return len(missing) == 0
}

// known finds a manifest among texts of canonical JSON, in which the hub has kept it, as a rule.
func known(texts map[string]struct{}, raw []byte) (text string, ok bool) {
	if _, ok := texts[string(raw)]; ok {
		return string(raw), true
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // a float64 cannot hold every integer
	if decoder.Decode(&value) != nil {
		return "", false
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		return "", false
	}
	_, ok = texts[string(canonical)]
	return string(canonical), ok
}

func failures(w *workv1.ManifestWork) []delivery.Failure {
	var out []delivery.Failure
	for _, m := range w.Status.ResourceStatus.Manifests {
		c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		out = append(out, delivery.Failure{
			Object: strings.TrimSpace(m.ResourceMeta.Kind + " " + strings.TrimPrefix(jobName(m.ResourceMeta.Namespace, m.ResourceMeta.Name), "/")),
			Cause:  c.Message, KindMissing: kindMissing(c.Message), Since: c.LastTransitionTime.Time,
		})
	}
	return out
}

// kindMissing recognizes what API machinery says of a kind that the cluster does not serve. The agent reports text only.
func kindMissing(message string) bool {
	return slices.ContainsFunc([]string{
		"no matches for kind", "the server doesn't have a resource type", "the server could not find the requested resource",
	}, func(text string) bool { return strings.Contains(message, text) })
}

func observeManifest(o *delivery.Observation, m workv1.ManifestCondition) {
	switch m.ResourceMeta.Kind {
	case "Deployment", "StatefulSet":
		seen := workloadState(m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name, m.StatusFeedbacks.Values)
		if !missing(m) && seen.Generation > 0 { // without one the agent has not reported anything of the object yet
			o.Workloads = append(o.Workloads, seen)
		}
	case "Job":
		o.Jobs = append(o.Jobs, delivery.JobState{
			JobRef:   render.JobRef{Namespace: m.ResourceMeta.Namespace, Name: m.ResourceMeta.Name},
			Complete: isTrue(m.Conditions, workv1.ManifestComplete), Failed: isTrue(m.Conditions, jobFailedCondition),
		})
	}
}

func jobRefs(names []string) []render.JobRef {
	var out []render.JobRef
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		out = append(out, render.JobRef{Namespace: namespace, Name: name})
	}
	return out
}
