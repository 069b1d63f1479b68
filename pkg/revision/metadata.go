// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// ApplyMetadata sets the labels and annotations of a template on a child of a KnativeFleet, and removes the labels and annotations that an
// earlier template has set and this template lacks. Annotations of the child record the keys of the template. Labels and annotations of others
// stay.
func ApplyMetadata(m fleetv1alpha1.TemplateMetadata, child metav1.Object) {
	annotations := child.GetAnnotations()
	recorded := map[string]string{
		api.FleetLabelsAnnotation: annotations[api.FleetLabelsAnnotation], api.FleetAnnotationsAnnotation: annotations[api.FleetAnnotationsAnnotation],
	}
	child.SetLabels(replaceKeys(child.GetLabels(), recorded[api.FleetLabelsAnnotation], m.Labels))
	annotations = replaceKeys(annotations, recorded[api.FleetAnnotationsAnnotation], m.Annotations)
	for key, set := range map[string]map[string]string{api.FleetLabelsAnnotation: m.Labels, api.FleetAnnotationsAnnotation: m.Annotations} {
		delete(annotations, key)
		if len(set) > 0 {
			annotations[key] = strings.Join(slices.Sorted(maps.Keys(set)), ",")
		}
	}
	child.SetAnnotations(annotations)
}

// replaceKeys returns values without the recorded keys, and with the wanted values. Only a template sets keys: a recorded key that the manager
// sets itself stays.
func replaceKeys(values map[string]string, recorded string, wanted map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, values)
	for key := range strings.SplitSeq(recorded, ",") {
		if !IsReservedKey(key) {
			delete(out, key)
		}
	}
	maps.Copy(out, wanted)
	return out
}

// IsReservedKey reports whether the manager sets the label or annotation on a child, or removes the key from a child: no template may have the
// key.
func IsReservedKey(key string) bool {
	switch key {
	case api.InstalledOnAnnotation, api.PinnedVersionAnnotation, api.RenderingTurnAnnotation, api.RollbackAnnotation:
		return true
	}
	return strings.HasPrefix(key, api.FleetLabel)
}
