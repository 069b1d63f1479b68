// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"errors"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Recorder records the specs of the resources of a kind.
type Recorder struct {
	Kind    revision.Kind
	Configs cache.GenericLister
	// Revisions caches the ControllerRevisions with api.RevisionLabel, with revision.Indexers.
	Revisions cache.Indexer
	// References finds the specs to which OCM refers.
	References     *revision.References
	RevisionClient kubernetes.Interface
	// Excludes reports whether the manager keeps no history of the resource, such as a resource that another manager serves. A nil
	// function stands for no such resource.
	Excludes func(*unstructured.Unstructured) bool

	observations observations
}

func (r *Recorder) isExcluded(config *unstructured.Unstructured) bool {
	return r.Excludes != nil && r.Excludes(config)
}

// recordSpecs records every spec of a resource that is not recorded yet, and prunes the history. Live is the resource from the
// cache, or nil for a resource that was deleted: Kubernetes deletes the revisions of such a resource.
func (r *Recorder) recordSpecs(ctx context.Context, name types.NamespacedName, live *unstructured.Unstructured) error {
	if live == nil {
		r.observations.removeSpecs(name)
		return nil
	}
	specs, unchecked := r.observations.listSpecs(name), r.observations.takeUnchecked(name)
	if len(specs) == 0 && unchecked {
		specs = append(specs, live)
	}
	if len(specs) == 0 {
		return nil
	}
	newest := specs[len(specs)-1]
	if r.isExcluded(newest) {
		for _, config := range specs {
			r.observations.removeSpec(config)
		}
		return nil
	}
	var err, tooLarge error
	for _, config := range specs {
		if err = r.recordSpec(ctx, config); errors.Is(err, revision.ErrTooLarge) {
			tooLarge, err = reconcile.TerminalError(err), nil // only another spec helps
		}
		if err != nil {
			break
		}
		r.observations.removeSpec(config)
	}
	if err == nil {
		err = r.pruneRevisions(ctx, newest)
	}
	if err != nil {
		r.observations.markUnchecked(name)
		return err
	}
	return tooLarge
}

// recordSpec makes the revision with the spec of the config the newest of its resource.
func (r *Recorder) recordSpec(ctx context.Context, config *unstructured.Unstructured) error {
	desired, err := revision.New(r.Kind, config, 0)
	if err != nil {
		return err
	}
	reconciler.Describe(ctx, reconciler.Subject{Revision: revision.HashOf(desired)})
	cached, err := revision.History(r.Revisions, r.Kind, client.ObjectKeyFromObject(config))
	if err != nil {
		return err
	}
	if isNewest(cached, desired) {
		return nil
	}
	// The cache may be behind, and no two revisions may get the same number.
	history, err := r.readHistory(ctx, config)
	if err != nil {
		return err
	}
	number := int64(1)
	if len(history) > 0 {
		number = history[0].Revision + 1
	}
	if err := r.adoptRevisions(ctx, history, desired); err != nil {
		return err
	}
	for _, current := range history {
		if current.Name == desired.Name {
			if current.Revision == number-1 { // without a new number for the newest revision
				number = current.Revision
			}
			return r.updateRevision(ctx, current, desired, number)
		}
	}
	desired.Revision = number
	_, err = r.RevisionClient.AppsV1().ControllerRevisions(desired.Namespace).Create(ctx, desired, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return r.restoreRevision(ctx, desired)
	}
	if err != nil {
		return fmt.Errorf("cannot record a spec of %s %q: %w", r.Kind.Kind(), client.ObjectKeyFromObject(config), err)
	}
	return nil
}

// restoreRevision repairs a revision that a user changed so that the history of the resource lacks it.
func (r *Recorder) restoreRevision(ctx context.Context, desired *appsv1.ControllerRevision) error {
	client := r.RevisionClient.AppsV1().ControllerRevisions(desired.Namespace)
	current, err := client.Get(ctx, desired.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot get ControllerRevision \"%s/%s\": %w", desired.Namespace, desired.Name, err)
	}
	current.Labels, current.Annotations = desired.Labels, desired.Annotations
	current.OwnerReferences, current.Revision = desired.OwnerReferences, desired.Revision
	if _, err := revision.Restore(current); err != nil { // Kubernetes allows no change of the data
		err = client.Delete(ctx, current.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &current.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot delete ControllerRevision \"%s/%s\", which holds another spec: %w", current.Namespace, current.Name, err)
		}
		if _, err = client.Create(ctx, desired, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot record a spec as ControllerRevision \"%s/%s\": %w", desired.Namespace, desired.Name, err)
		}
		return nil
	}
	if _, err := client.Update(ctx, current, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot repair ControllerRevision \"%s/%s\": %w", current.Namespace, current.Name, err)
	}
	return nil
}

// isNewest reports whether the history begins with the desired revision and its annotations, and the resource owns all revisions.
// An earlier resource of the same name may have left a history.
func isNewest(history []*appsv1.ControllerRevision, desired *appsv1.ControllerRevision) bool {
	for _, recorded := range history {
		if !hasSameOwner(recorded, desired) {
			return false
		}
	}
	return len(history) > 0 && history[0].Name == desired.Name && maps.Equal(history[0].Annotations, mergeAnnotations(history[0], desired))
}

// readHistory reads the revisions of the resource's name from the hub, the newest first.
func (r *Recorder) readHistory(ctx context.Context, config *unstructured.Unstructured) ([]*appsv1.ControllerRevision, error) {
	list, err := r.RevisionClient.AppsV1().ControllerRevisions(config.GetNamespace()).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(revision.Labels(r.Kind, config.GetName())).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the revisions of %s %q: %w", r.Kind.Kind(), client.ObjectKeyFromObject(config), err)
	}
	var history []*appsv1.ControllerRevision
	for i := range list.Items {
		if _, name, ok := revision.ResourceOf(&list.Items[i]); ok && name == client.ObjectKeyFromObject(config) {
			history = append(history, &list.Items[i])
		}
	}
	revision.SortNewestFirst(history)
	return history, nil
}

// adoptRevisions makes the resource the owner of the history that a deleted resource of the same name left. Clusters have specs of
// that history, and Kubernetes would delete the revisions with their owner.
func (r *Recorder) adoptRevisions(ctx context.Context, history []*appsv1.ControllerRevision, desired *appsv1.ControllerRevision) error {
	for _, recorded := range history {
		if hasSameOwner(recorded, desired) || recorded.DeletionTimestamp != nil {
			continue
		}
		recorded.OwnerReferences = desired.OwnerReferences
		delete(recorded.Annotations, api.CompletedAnnotation) // a cluster completed the spec of the deleted resource
		changed, err := r.RevisionClient.AppsV1().ControllerRevisions(recorded.Namespace).Update(ctx, recorded, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("cannot adopt ControllerRevision \"%s/%s\": %w", recorded.Namespace, recorded.Name, err)
		}
		changed.DeepCopyInto(recorded)
	}
	return nil
}

func hasSameOwner(recorded, desired *appsv1.ControllerRevision) bool {
	return len(recorded.OwnerReferences) == 1 && recorded.OwnerReferences[0].UID == desired.OwnerReferences[0].UID
}

// mergeAnnotations returns the annotations that a recorded revision should have. A pin stays until another pin replaces it: the
// resource has no pin for a moment whenever spec.version becomes empty.
func mergeAnnotations(recorded, desired *appsv1.ControllerRevision) map[string]string {
	merged := maps.Clone(recorded.Annotations)
	if merged == nil {
		merged = map[string]string{}
	}
	delete(merged, api.InstallNamespaceAnnotation)
	delete(merged, api.VerificationAnnotation)
	maps.Copy(merged, desired.Annotations)
	return merged
}

// updateRevision gives a revision the number, and the annotations of the resource. Kubernetes allows no change of the data.
func (r *Recorder) updateRevision(ctx context.Context, current, desired *appsv1.ControllerRevision, number int64) error {
	annotations := mergeAnnotations(current, desired)
	// The spec returns, and no cluster has run the spec since. The record of templates stays: a KnativeFleet records each run of templates once.
	if _, isFleet := r.Kind.(revision.Fleet); current.Revision != number && !isFleet {
		delete(annotations, api.CompletedAnnotation)
	}
	if current.Revision == number && maps.Equal(current.Annotations, annotations) {
		return nil
	}
	current.Revision, current.Annotations = number, annotations
	if _, err := r.RevisionClient.AppsV1().ControllerRevisions(current.Namespace).Update(ctx, current, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot update ControllerRevision \"%s/%s\": %w", current.Namespace, current.Name, err)
	}
	return nil
}
