// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// OCM's work agent applies every object that it can, but records what it applied only when the cluster serves the kinds of all
// objects of the work. An object that leaves such a work before the agent has recorded the object stays on the cluster until the
// work is deleted. Therefore the objects leave in a second write, after a payload without unserved kinds.

// NextPayload returns the objects of the next write of the payload: those of Payload, or those of an intermediate payload. While the cluster
// may have an unfinished Job that has to change, NextPayload returns the present payload without the Job. While the present payloads have
// objects of unserved kinds and other objects that the bundle lacks, NextPayload returns the objects of both that the cluster serves. Callers
// must not change the objects.
func NextPayload(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) ([]runtime.Object, error) {
	if jobs := planJobReplacement(payloads, b, foundation); !jobs.isOver() {
		return jobs.intermediatePayload(payloads, b)
	}
	desired := Payload(b, foundation)
	unserved := listUnservedKinds(payloads)
	if len(unserved) == 0 {
		return desired, nil
	}
	leaving, err := listLeaving(payloads, b, foundation, unserved)
	if err != nil || len(leaving) == 0 {
		return desired, err
	}
	// The payload is of no bundle, and has no bundle's mark.
	out := slices.DeleteFunc(desired[:len(desired)-1], func(o runtime.Object) bool { return isOfKind(o, unserved) })
	return append(out, leaving...), nil
}

// MatchNextPayload reports whether the payloads together are exactly the objects of NextPayload, so that no write is necessary before the agent
// reports.
func MatchNextPayload(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	return MatchBundle(payloads, b, foundation) || matchIntermediatePayload(payloads, b, foundation)
}

// AwaitedPayload names the next event while the payloads are not the payload of the bundle.
func AwaitedPayload(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) string {
	if i := slices.IndexFunc(payloads, func(p *workv1.ManifestWork) bool { return !observedBy(p, workv1.WorkApplied) }); i >= 0 &&
		matchIntermediatePayload(payloads, b, foundation) {
		return fmt.Sprintf("waiting for the work agent to apply ManifestWork %q before the manifests change", payloads[i].Name)
	}
	return "waiting for the ManifestWork of the payload to be written"
}

// matchIntermediatePayload reports whether the payloads together are the objects of NextPayload, which are not those of Payload.
func matchIntermediatePayload(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	jobs := planJobReplacement(payloads, b, foundation)
	if len(listUnservedKinds(payloads)) == 0 && jobs.isOver() {
		return false
	}
	objects, err := NextPayload(payloads, b, foundation)
	wanted := newManifestSet(len(objects))
	for _, o := range objects {
		if u, ok := o.(*unstructured.Unstructured); ok {
			wanted.add(encodeJSON(u))
		}
	}
	return err == nil && wanted.matches(payloads)
}

// listUnservedKinds returns the kinds that the cluster of the payloads does not serve, according to the agent's last report.
func listUnservedKinds(payloads []*workv1.ManifestWork) []schema.GroupKind {
	var out []schema.GroupKind
	for _, p := range payloads {
		for _, m := range p.Status.ResourceStatus.Manifests {
			if c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied); c != nil && saysKindMissing(c.Message) {
				out = append(out, schema.GroupKind{Group: m.ResourceMeta.Group, Kind: m.ResourceMeta.Kind})
			}
		}
	}
	return out
}

// listLeaving returns the objects of the payloads that the bundle lacks, without objects of unserved kinds, bundle marks, and Jobs
// that the foundation records as removed.
func listLeaving(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork, unserved []schema.GroupKind) ([]runtime.Object, error) {
	staying := map[objectKey]struct{}{}
	for o := range payloadObjects(b, foundation) {
		staying[keyOf(o.Unstructured)] = struct{}{}
	}
	removedJobs := FinishedJobs(foundation)
	objects, err := objectsOf(payloads)
	return slices.DeleteFunc(objects, func(object runtime.Object) bool {
		o, ok := object.(*unstructured.Unstructured)
		if !ok {
			return true
		}
		_, stays := staying[keyOf(o)]
		isRemovedJob := o.GetKind() == "Job" && slices.Contains(removedJobs, jobName(o.GetNamespace(), o.GetName()))
		return stays || isRemovedJob || isOfKind(o, unserved) || isBundleMark(b.Component, o)
	}), err
}

// objectKey identifies an object on a cluster.
type objectKey struct {
	kind            schema.GroupKind
	namespace, name string
}

func keyOf(o *unstructured.Unstructured) objectKey {
	return objectKey{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

func isOfKind(o runtime.Object, kinds []schema.GroupKind) bool {
	return slices.Contains(kinds, o.GetObjectKind().GroupVersionKind().GroupKind())
}
