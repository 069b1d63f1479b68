// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// NewFleets returns the history of the templates of the hub's KnativeFleets. The controller of KnativeFleets calls Record; no events
// lead to a record.
func NewFleets(h *hub.Hub) *Recorder {
	return &Recorder{
		Kind: revision.Fleet{}, Revisions: h.ControllerRevisions().Informer().GetIndexer(), References: h.NewReferences(), RevisionClient: h.Clients.Kube,
	}
}

// NewCompletions returns the part of the history of the resources of a component that records which specs clusters have run. The
// Reconciler of the component keeps the history.
func NewCompletions(c hub.Configuration) *Recorder {
	return &Recorder{Kind: c.Component, Revisions: c.Revisions.Informer().GetIndexer(), RevisionClient: c.Clients.Kube}
}

// Record makes the spec of the resource the newest of its history, and prunes the history. The error is revision.ErrTooLarge for a spec
// that no revision can hold.
func (r *Recorder) Record(ctx context.Context, config *unstructured.Unstructured) error {
	if err := r.recordSpec(ctx, config); err != nil {
		return err
	}
	return r.pruneRevisions(ctx, config)
}

// MarkCompleted records that a cluster has run the spec of the resource, unless another cluster did before. A spec that is not in the cache
// yet is not marked, and marked reports so.
func (r *Recorder) MarkCompleted(ctx context.Context, config *unstructured.Unstructured, cluster string) (marked bool, err error) {
	recorded, err := r.findRevision(config)
	if recorded == nil || err != nil {
		return false, err
	}
	if recorded.Annotations[api.CompletedAnnotation] != "" {
		return true, nil
	}
	changed := recorded.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, api.CompletedAnnotation, cluster)
	_, err = r.RevisionClient.AppsV1().ControllerRevisions(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("cannot update ControllerRevision \"%s/%s\": %w", changed.Namespace, changed.Name, err)
	}
	return err == nil, nil
}

// IsCompleted reports whether a cluster has run the spec of the resource.
func (r *Recorder) IsCompleted(config *unstructured.Unstructured) bool {
	recorded, err := r.findRevision(config)
	return err == nil && recorded != nil && recorded.Annotations[api.CompletedAnnotation] != ""
}

// findRevision returns the revision of the spec of the resource; nil when the cache has none.
func (r *Recorder) findRevision(config *unstructured.Unstructured) (*appsv1.ControllerRevision, error) {
	hash, err := revision.Hash(config)
	if err != nil {
		return nil, err
	}
	return revision.Find(r.Revisions, r.Kind, client.ObjectKeyFromObject(config), hash)
}
