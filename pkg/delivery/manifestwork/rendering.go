// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A new manager, or other release manifests, may render the same spec differently. The payload on the hub is the rendering that the
// cluster has, and stays until the turn of the cluster. docs/design/0018-renderings.md has the reasons.

// DeliveredRendering names the rendering of the payloads; empty without a bundle's mark.
func DeliveredRendering(c api.Component, payloads []*workv1.ManifestWork) string {
	if mark := findMark(c, payloads); mark != nil {
		return mark.GetName()[len(markPrefix(c)):]
	}
	return ""
}

// HasOtherRendering reports whether the payloads are of another bundle.
func HasOtherRendering(b *render.Bundle, payloads []*workv1.ManifestWork) bool {
	delivered := DeliveredRendering(b.Component, payloads)
	return delivered != "" && delivered != b.RenderingName()
}

// AwaitsTurn reports whether the payloads of the configurations are another rendering than the bundle, and the cluster did not have its
// turn. A foundation of an older manager records no inputs: the inputs then count as unchanged. Webhook configurations that ignore failures
// do not wait: the cluster accepts objects that no webhook judges until addon-framework writes the payload again. Orphaned works do not wait
// either: the hub has to own the installation again.
func AwaitsTurn(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork, configs map[string]string) bool {
	if foundation == nil || foundation.DeletionTimestamp != nil || IsProbe(foundation) || foundation.Annotations[api.RenderingTurnAnnotation] == b.RenderingName() {
		return false
	}
	inputs := foundation.Annotations[api.RenderingInputsAnnotation]
	return (inputs == "" || inputs == b.Inputs) && maps.Equal(Delivered(payloads), configs) && HasOtherRendering(b, payloads) &&
		!slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool { return p.DeletionTimestamp != nil || IsOrphaned(p) }) &&
		!IsOrphaned(foundation) && !IsUnblocked(foundation) && !IgnoresFailures(payloads)
}

// DeliveredBundle describes the rendering of the payloads, for the status of a cluster that keeps the rendering instead of the bundle:
// the version, and the workloads and Jobs to expect. The result has no objects.
func DeliveredBundle(b *render.Bundle, payloads []*workv1.ManifestWork) (*render.Bundle, delivery.Observation, error) {
	kept, err := ObserveKept(payloads)
	if err != nil || kept == nil {
		return nil, delivery.Observation{}, err
	}
	out := &render.Bundle{
		Component: b.Component, Version: b.Version, Namespace: b.Namespace, Warnings: b.Warnings, Workloads: kept.Workloads, Jobs: kept.Jobs,
	}
	if mark := findMark(b.Component, payloads); mark != nil {
		out.Version, _, _ = unstructured.NestedString(mark.Object, "data", "version")
	}
	for _, p := range payloads {
		if observedBy(p, workv1.WorkApplied) {
			kept.Observation.Failed = append(kept.Observation.Failed, listFailures(p)...)
		}
	}
	return out, kept.Observation, nil
}
