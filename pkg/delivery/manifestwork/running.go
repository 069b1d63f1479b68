// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// RunningVersion returns the version of the payloads when the cluster runs that version completely, by the agent's reports:
// every object is applied, every workload is rolled out, and every Job has completed. Otherwise the version is empty. The
// payloads alone decide: the hub may want another configuration already.
func RunningVersion(c api.Component, payloads []*workv1.ManifestWork) string {
	var o delivery.Observation
	var expected []workload.Expected
	version := ""
	for _, p := range payloads {
		if !observedBy(p, workv1.WorkAvailable) || !observedBy(p, workv1.WorkApplied) || !apimeta.IsStatusConditionTrue(p.Status.Conditions, workv1.WorkApplied) || p.DeletionTimestamp != nil {
			return ""
		}
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&o, m)
			if render.KindNamed(m.ResourceMeta.Kind).Feedback == render.WorkloadFeedback {
				expected = append(expected, workload.Expected{Kind: m.ResourceMeta.Kind, Namespace: m.ResourceMeta.Namespace, Name: m.ResourceMeta.Name})
			}
		}
		if v := observedVersion(c, p); v != "" {
			version = v
		}
	}
	incomplete := slices.ContainsFunc(o.Jobs, func(s delivery.JobState) bool { return !s.Complete })
	if incomplete || len(delivery.NotRolledOut(expected, o.Workloads)) > 0 {
		return ""
	}
	return version
}

// DeliveredVersion returns the version of the payloads, which the cluster may not run yet; empty without the mark of a bundle.
func DeliveredVersion(c api.Component, payloads []*workv1.ManifestWork) string {
	mark := findMark(c, payloads)
	if mark == nil {
		return ""
	}
	version, _, _ := unstructured.NestedString(mark.Object, "data", "version")
	return version
}

// ReportsVersion reports whether the status of a payload is about the payload's present manifests, and these are of the version.
// An older report may name Jobs of the version from the time when the cluster had the version before.
func ReportsVersion(c api.Component, payload *workv1.ManifestWork, version string) bool {
	return observedBy(payload, workv1.WorkApplied) && observedBy(payload, workv1.WorkAvailable) && observedVersion(c, payload) == version
}

// observedVersion returns the version in the bundle's mark of a payload; empty when the payload has no mark, or when the agent
// has not observed the mark since the last application.
func observedVersion(c api.Component, payload *workv1.ManifestWork) string {
	mark := findMark(c, []*workv1.ManifestWork{payload})
	if mark == nil {
		return ""
	}
	if m := findManifest(payload, mark); m == nil || apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable) == nil {
		return ""
	}
	version, _, _ := unstructured.NestedString(mark.Object, "data", "version")
	return version
}
