// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"iter"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Payload returns the objects that addon-framework packs into the payload's work, and the bundle's mark. Callers must not
// change the objects, which belong to the bundle.
func Payload(b *render.Bundle, foundation *workv1.ManifestWork) []runtime.Object {
	out := make([]runtime.Object, 0, len(b.Payload)+1)
	for o := range payloadObjects(b, foundation) {
		out = append(out, o.Unstructured)
	}
	return append(out, bundleMark(b))
}

// PayloadObjects returns the JSON of the objects of Payload without the mark of the bundle.
func PayloadObjects(b *render.Bundle, foundation *workv1.ManifestWork) [][]byte {
	var out [][]byte
	for o := range payloadObjects(b, foundation) {
		out = append(out, o.JSON)
	}
	return out
}

// payloadObjects returns the objects outside the foundation, without the Jobs that the foundation records as finished and
// removed. The webhook configurations ignore failures if the foundation says so.
func payloadObjects(b *render.Bundle, foundation *workv1.ManifestWork) iter.Seq[render.Object] {
	finishedJobs, unblocked := FinishedJobs(foundation), IsUnblocked(foundation)
	return func(yield func(render.Object) bool) {
		for _, o := range b.Payload {
			if isLeftOut(o, finishedJobs) {
				continue
			}
			if unblocked && delivery.IsWebhookConfiguration(o.Unstructured) {
				o = ignoringFailures(o)
			}
			if !yield(o) {
				return
			}
		}
	}
}

func isLeftOut(o render.Object, finishedJobs []string) bool {
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

// RemovedJobs lists the Jobs of a payload that have finished and are gone from the cluster, sorted. A payload that contains
// such a Job counts as not available.
func RemovedJobs(payload *workv1.ManifestWork) []string {
	var out []string
	for _, m := range payload.Status.ResourceStatus.Manifests {
		if m.ResourceMeta.Kind == "Job" && hasFinished(m) && isMissing(m) {
			out = append(out, jobName(m.ResourceMeta.Namespace, m.ResourceMeta.Name))
		}
	}
	slices.Sort(out)
	return out
}

// HasUnreadableManifest reports whether a payload has a manifest, beside those of the bundle, whose kind and name cannot be read, such as a
// manifest with a field "items". addon-framework writes no payload that has such a manifest.
func HasUnreadableManifest(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	wanted := manifestsOfBundle(b, foundation)
	for _, p := range payloads {
		for _, m := range p.Spec.Workload.Manifests {
			if _, ok := wanted.find(m.Raw); !ok && !IsReadable(m) {
				return true
			}
		}
	}
	return false
}

// IsReadable reports whether the kind and the name of a manifest can be read, as addon-framework reads both.
func IsReadable(m workv1.Manifest) bool {
	object, err := runtime.Decode(unstructured.UnstructuredJSONScheme, m.Raw)
	if err != nil {
		return false
	}
	_, err = apimeta.Accessor(object)
	gvk := object.GetObjectKind().GroupVersionKind()
	return err == nil && gvk.Kind != "" && gvk.Version != ""
}

// manifestsOfBundle returns the manifests of the bundle's payload.
func manifestsOfBundle(b *render.Bundle, foundation *workv1.ManifestWork) *manifestSet {
	out := newManifestSet(len(b.Payload) + 1)
	out.add(encodeJSON(bundleMark(b)))
	for o := range payloadObjects(b, foundation) {
		out.add(o.JSON)
	}
	return out
}

// MatchBundle reports whether the payloads together are exactly the payload of the bundle.
func MatchBundle(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	return manifestsOfBundle(b, foundation).matches(payloads)
}
