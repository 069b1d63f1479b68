// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// An empty spec.version stands for the newest version of the add-on. Without a pin, an upgrade of the add-on would upgrade every
// cluster whose configuration names no version, at once. The pin is an annotation, so that the pin changes neither the spec nor its
// hash. The pin goes when the user names a version, and returns when the user removes the version.

// pinVersion sets or removes the pin and returns the resource with the change.
func (r *Reconciler) pinVersion(ctx context.Context, config *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	current, pinned := config.GetAnnotations()[api.PinnedVersionAnnotation]
	desired, err := r.determinePin(config, current)
	if err != nil || current == desired && pinned == (desired != "") {
		return config, err
	}
	return r.writePin(ctx, config, desired)
}

// determinePin returns the version at which the resource should be pinned, empty for none.
func (r *Reconciler) determinePin(config *unstructured.Unstructured, current string) (string, error) {
	version, _, err := unstructured.NestedString(config.Object, "spec", "version")
	manifests, _, _ := unstructured.NestedSlice(config.Object, "spec", "manifests")
	if err != nil || version != "" || len(manifests) > 0 {
		return "", nil //nolint:nilerr // package render reports a version that is no string
	}
	if current != "" {
		return current, nil
	}
	if recorded, err := r.findRecordedPin(config); recorded != "" || err != nil {
		return recorded, err
	}
	return r.Versions.ResolveVersion(r.Component, "")
}

// findRecordedPin returns the version at which the same spec was pinned before, while a cluster should have that spec, or has that version: a
// spec that returns in the middle of a rollout must not mean another version to the clusters that never left it. The version is empty when there
// is no such pin.
func (r *Reconciler) findRecordedPin(config *unstructured.Unstructured) (string, error) {
	name := client.ObjectKeyFromObject(config)
	hash, err := revision.Hash(config)
	if err != nil {
		return "", err
	}
	o, exists, err := r.Revisions.GetByKey(name.Namespace + "/" + revision.Name(r.Component, name.Name, hash))
	if err != nil || !exists {
		return "", err
	}
	recorded, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return "", fmt.Errorf("cannot read a revision of %s %q: it is a %T", r.Component.Kind(), name, o)
	}
	version := recorded.Annotations[api.PinnedVersionAnnotation]
	if version == "" {
		return "", nil
	}
	if revision.HasDelivered(config, version) { // the annotation was lost, and the spec is the same
		return version, nil
	}
	referred, err := r.References.Of(r.Component, name)
	if err != nil || !referred.Desired[hash] {
		return "", err
	}
	return version, nil
}

// writePin writes the pin, or removes the pin when the version is empty, and returns the resource with the change.
func (r *Reconciler) writePin(ctx context.Context, config *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	pinned, err := hub.Patch(ctx, r.ConfigClient.Resource(r.Component.Resource()).Namespace(config.GetNamespace()), config,
		func(changed *unstructured.Unstructured) {
			annotations := maps.Clone(changed.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[api.PinnedVersionAnnotation] = version
			if version == "" {
				delete(annotations, api.PinnedVersionAnnotation)
			}
			changed.SetAnnotations(annotations)
		})
	if err != nil {
		return config, client.IgnoreNotFound(err)
	}
	return pinned, nil
}
