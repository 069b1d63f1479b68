// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// OCM's work agent creates a Job and never changes the Job, because a cluster refuses most changes of a Job. A Job that cannot finish, such
// as a Job whose image no registry has, would stay after the user has corrected the cause. Therefore the manager first writes a payload
// without the Job, for which the agent deletes the Job, and then the payload with the changed Job.

// listReplacedJobs returns the Jobs of the bundle that the next payload lacks: the cluster has the Job in another form, and the Job has not
// finished; or the present payload lacks the Job for that reason, and the agent has not applied the payload.
func listReplacedJobs(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) []objectKey {
	if len(payloads) == 0 {
		return nil
	}
	awaitsApply := findMark(b.Component, payloads) == nil && slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool {
		return !observedBy(p, workv1.WorkApplied)
	})
	var out []objectKey
	for o := range payloadObjects(b, foundation) {
		if o.Class != render.OncePerVersion {
			continue
		}
		key := keyOf(o.Unstructured)
		payload, present := findManifestOf(payloads, key)
		switch {
		case present == nil && awaitsApply, present != nil && !isCanonically(present, o.JSON) && mayRun(payload, key):
			out = append(out, key)
		}
	}
	return out
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
	_, ok := findCanonical(map[string]struct{}{string(text): {}}, raw)
	return ok
}

// mayRun reports whether the cluster may have the Job without its end. Without a report of the agent the cluster may have the Job.
func mayRun(payload *workv1.ManifestWork, job objectKey) bool {
	return !slices.ContainsFunc(payload.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool {
		isReport := m.ResourceMeta.Kind == job.kind.Kind && m.ResourceMeta.Namespace == job.namespace && m.ResourceMeta.Name == job.name
		return isReport && (hasFinished(m) || isMissing(m) || apimeta.IsStatusConditionFalse(m.Conditions, workv1.ManifestApplied))
	})
}

func isOneOf(o runtime.Object, keys []objectKey) bool {
	u, ok := o.(*unstructured.Unstructured)
	return ok && slices.Contains(keys, keyOf(u))
}
