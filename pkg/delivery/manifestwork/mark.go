// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// bundleMark returns a ConfigMap of the payload that is named after the bundle. The agent lists the ConfigMap, and reports
// whether it exists, only after applying the payload of this bundle.
func bundleMark(b *render.Bundle) *unstructured.Unstructured {
	return configMap(b.Namespace, markName(b), map[string]any{"digest": b.Digest, "version": b.Version})
}

func markName(b *render.Bundle) string {
	return markPrefix(b.Component) + b.RenderingName()
}

func markPrefix(c api.Component) string { return c.AddOnName() + "-bundle-" }

// findMark returns the mark of the bundle in the payloads; nil without a mark. The mark is the last manifest of a payload, so that the
// search begins at the end.
func findMark(c api.Component, payloads []*workv1.ManifestWork) *unstructured.Unstructured {
	prefix := []byte(markPrefix(c))
	for _, p := range payloads {
		for _, m := range slices.Backward(p.Spec.Workload.Manifests) {
			if !bytes.Contains(m.Raw, prefix) {
				continue
			}
			o := &unstructured.Unstructured{}
			if o.UnmarshalJSON(m.Raw) == nil && isBundleMark(c, o) {
				return o
			}
		}
	}
	return nil
}

func isBundleMark(c api.Component, o *unstructured.Unstructured) bool {
	return o.GetKind() == "ConfigMap" && strings.HasPrefix(o.GetName(), markPrefix(c))
}
