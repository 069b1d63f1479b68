// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// OCM's work agent creates a Job and never changes the Job, because a cluster refuses most changes of a Job. A Job that cannot finish, such
// as a Job whose image no registry has, would stay after the user has corrected the cause. Therefore the Job leaves the present payload, the
// agent deletes the Job before the agent reports that the payload is applied, and then the manager writes the payload with the changed Job.
// The agent deletes only objects that the agent has recorded: after it has applied a payload, all of whose kinds the cluster serves.

// jobReplacement is the next step of the replacement of Jobs that the cluster may have in another form than the bundle.
type jobReplacement struct {
	// staying are Jobs that the agent may not have recorded: the payload keeps these Jobs until the agent has applied the payload.
	staying []objectKey
	// leaving are Jobs that the payload loses.
	leaving []objectKey
	// left are Jobs that the payload has lost before the agent has applied the payload.
	left []objectKey
}

// isOver reports whether no Job has to be replaced.
func (r *jobReplacement) isOver() bool { return len(r.staying)+len(r.leaving)+len(r.left) == 0 }

// planJobReplacement returns the next step for the Jobs of the bundle.
func planJobReplacement(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) jobReplacement {
	var out jobReplacement
	if len(payloads) == 0 {
		return out
	}
	isIntermediate := findMark(b.Component, payloads) == nil
	for o := range payloadObjects(b, foundation) {
		if o.Class != render.OncePerVersion {
			continue
		}
		key := keyOf(o.Unstructured)
		payload, present := findManifestOf(payloads, key)
		switch {
		case payload == nil:
			if slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool {
				return !observedBy(p, workv1.WorkApplied) && (isIntermediate || findJobReport(p, key) != nil)
			}) {
				out.left = append(out.left, key)
			}
		case isCanonically(present, o.JSON) || hasFinishedJob(payload, key):
		case !observedBy(payload, workv1.WorkApplied) || len(listUnservedKinds(payloads)) > 0:
			out.staying = append(out.staying, key)
		default:
			out.leaving = append(out.leaving, key)
		}
	}
	return out
}

// intermediatePayload returns the objects of the present payloads, without the Jobs that leave, and without the mark of the bundle: with the mark,
// the payload would count as another rendering of the changed configuration. With Jobs that stay, the payload has no object of an unserved
// kind.
func (r *jobReplacement) intermediatePayload(payloads []*workv1.ManifestWork, b *render.Bundle) ([]runtime.Object, error) {
	var unserved []schema.GroupKind
	if len(r.staying) > 0 {
		unserved = listUnservedKinds(payloads)
	}
	objects, err := objectsOf(payloads)
	return slices.DeleteFunc(objects, func(o runtime.Object) bool {
		u, ok := o.(*unstructured.Unstructured)
		return ok && (isBundleMark(b.Component, u) || slices.Contains(r.leaving, keyOf(u)) || isOfKind(u, unserved))
	}), err
}

// objectsOf returns the objects of the payloads.
func objectsOf(payloads []*workv1.ManifestWork) ([]runtime.Object, error) {
	var out []runtime.Object
	for _, p := range payloads {
		objects, err := manifestsOf(p)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			out = append(out, o)
		}
	}
	return out, nil
}

// findManifestOf returns the manifest of the object, and the payload that has the manifest; nil if no payload has the object.
func findManifestOf(payloads []*workv1.ManifestWork, key objectKey) (payload *workv1.ManifestWork, raw []byte) {
	name := []byte(`"` + key.name + `"`)
	for _, p := range payloads {
		for _, m := range p.Spec.Workload.Manifests {
			o := &unstructured.Unstructured{}
			if bytes.Contains(m.Raw, name) && o.UnmarshalJSON(m.Raw) == nil && keyOf(o) == key {
				return p, m.Raw
			}
		}
	}
	return nil, nil
}

// isCanonically reports whether the manifest, as canonical JSON, is the text.
func isCanonically(raw, text []byte) bool {
	if bytes.Equal(raw, text) {
		return true
	}
	canonical, ok := canonicalJSON(raw)
	return ok && bytes.Equal(canonical, text)
}

// hasFinishedJob reports whether the agent has reported the end of the Job.
func hasFinishedJob(payload *workv1.ManifestWork, job objectKey) bool {
	report := findJobReport(payload, job)
	return report != nil && hasFinished(*report)
}

// findJobReport returns the report of the agent on the Job, or nil.
func findJobReport(payload *workv1.ManifestWork, job objectKey) *workv1.ManifestCondition {
	manifests := payload.Status.ResourceStatus.Manifests
	i := slices.IndexFunc(manifests, func(m workv1.ManifestCondition) bool {
		return m.ResourceMeta.Kind == job.kind.Kind && m.ResourceMeta.Namespace == job.namespace && m.ResourceMeta.Name == job.name
	})
	if i < 0 {
		return nil
	}
	return &manifests[i]
}
