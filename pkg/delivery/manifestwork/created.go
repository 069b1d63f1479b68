// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A foundation contains a Namespace and CRDs that the cluster may have had before. A removal with a deletion policy deletes
// only objects with api.CreatedByHubAnnotation: RecordCreated adds the annotation when the probe has proved that the
// cluster lacked the object, and the annotation stays on the cluster for the next installation. A foundation of an older
// manager has no such annotation, so that these objects stay.

// RecordCreated annotates the Namespaces and CRDs of a foundation that an add-on of the hub has created or is about to
// create, and makes the agent leave other Namespaces unchanged. before is the work that the foundation replaces: a probe,
// another foundation, or nil. crds is the work that has taken over CRDs from before for a removal that was given up; nil without such a work.
func RecordCreated(foundation, before, crds *workv1.ManifestWork, hub types.UID) error {
	created, err := createdBefore(before, hub)
	if err != nil {
		return err
	}
	if err := addCreated(created, crds, hub); err != nil {
		return err
	}
	for i, m := range foundation.Spec.Workload.Manifests {
		named, err := readManifestName(m.Raw)
		if err != nil {
			return fmt.Errorf("cannot read manifest %d of ManifestWork %q: %w", i, foundation.Name, err)
		}
		switch {
		case !render.KindNamed(named.Kind).Orphan:
		case created[named.String()]:
			raw, err := annotateManifest(m.Raw, api.CreatedByHubAnnotation, string(hub))
			if err != nil {
				return fmt.Errorf("cannot annotate %s: %w", named.String(), err)
			}
			foundation.Spec.Workload.Manifests[i] = workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
		case named.Kind == "Namespace" && !appliesNamespace(before, named.Metadata.Name):
			foundation.Spec.ManifestConfigs = append([]workv1.ManifestConfigOption{createdNamespace(named.Metadata.Name)}, foundation.Spec.ManifestConfigs...)
		}
	}
	return nil
}

// createdNamespace makes the agent create a Namespace if the cluster lacks it, and leave an existing Namespace unchanged.
func createdNamespace(name string) workv1.ManifestConfigOption {
	return workv1.ManifestConfigOption{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "namespaces", Name: name},
		UpdateStrategy:     createOnly(), FeedbackScrapeType: workv1.FeedbackPollType,
	}
}

// appliesNamespace reports whether the agent applies the labels and annotations of a Namespace for a foundation. A foundation of an
// older manager does so for every Namespace.
func appliesNamespace(foundation *workv1.ManifestWork, name string) bool {
	return foundation != nil && !IsProbe(foundation) &&
		!slices.ContainsFunc(foundation.Spec.ManifestConfigs, func(c workv1.ManifestConfigOption) bool {
			return c.ResourceIdentifier == createdNamespace(name).ResourceIdentifier
		})
}

// createdBefore lists the Namespaces and CRDs, as "Kind name", that the hub has created, or that the cluster lacks.
func createdBefore(before *workv1.ManifestWork, hub types.UID) (map[string]bool, error) {
	out := map[string]bool{}
	if before == nil {
		return out, nil
	}
	if !IsProbe(before) {
		return out, addCreated(out, before, hub)
	}
	found := FoundBy(before)
	if found.Waiting != "" {
		return out, nil
	}
	for i, m := range before.Spec.Workload.Manifests {
		named, err := readManifestName(m.Raw)
		if err != nil {
			return nil, fmt.Errorf("cannot read manifest %d of ManifestWork %q: %w", i, before.Name, err)
		}
		if by, there := found.Foundation[named.String()]; render.KindNamed(named.Kind).Orphan {
			out[named.String()] = !there || by == string(hub)
		}
	}
	return out, nil
}

// addCreated adds the Namespaces and CRDs of a work that name the hub as the creator.
func addCreated(created map[string]bool, work *workv1.ManifestWork, hub types.UID) error {
	if work == nil {
		return nil
	}
	for i, m := range work.Spec.Workload.Manifests {
		named, err := readManifestName(m.Raw)
		if err != nil {
			return fmt.Errorf("cannot read manifest %d of ManifestWork %q: %w", i, work.Name, err)
		}
		if render.KindNamed(named.Kind).Orphan && named.Metadata.Annotations[api.CreatedByHubAnnotation] == string(hub) {
			created[named.String()] = true
		}
	}
	return nil
}

// BringsNamespace reports whether a foundation carries the Namespace.
func BringsNamespace(foundation *workv1.ManifestWork, namespace string) bool {
	return slices.ContainsFunc(foundation.Spec.Workload.Manifests, func(m workv1.Manifest) bool {
		named, err := readManifestName(m.Raw)
		return err == nil && named.Kind == "Namespace" && named.Metadata.Name == namespace
	})
}

// HasCreated reports whether an add-on has created a Namespace or CRD of the foundation, which a deletion policy may delete.
func HasCreated(foundation *workv1.ManifestWork) bool {
	return slices.ContainsFunc(foundation.Spec.Workload.Manifests, func(m workv1.Manifest) bool {
		named, err := readManifestName(m.Raw)
		return err != nil || render.KindNamed(named.Kind).Orphan && named.Metadata.Annotations[api.CreatedByHubAnnotation] != ""
	})
}

// NotCreated names the Namespaces and CRDs of a foundation that no removal deletes, sorted.
func NotCreated(foundation *workv1.ManifestWork) ([]string, error) {
	rules, err := keepRules(foundation, true)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(rules))
	for _, r := range rules {
		out = append(out, r.Resource+" "+r.Name)
	}
	slices.Sort(out)
	return out, nil
}

// keepRules returns the rules that keep the Namespaces and CRDs of a foundation on the cluster: all of these objects, or
// only the objects that the add-on has not created.
func keepRules(foundation *workv1.ManifestWork, notCreatedOnly bool) ([]workv1.OrphaningRule, error) {
	manifests, err := manifestsOf(foundation)
	if err != nil {
		return nil, err
	}
	var out []workv1.OrphaningRule
	for _, m := range manifests {
		kind := render.KindOf(m.GroupVersionKind().GroupKind())
		if !kind.Orphan || notCreatedOnly && m.GetAnnotations()[api.CreatedByHubAnnotation] != "" {
			continue
		}
		out = append(out, workv1.OrphaningRule{Group: kind.Group, Resource: kind.Resource, Name: m.GetName()})
	}
	return out, nil
}
