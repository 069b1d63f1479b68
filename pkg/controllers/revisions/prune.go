// Copyright Contributors to the Open Cluster Management project

package revisions

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/revision"
)

// kept is how many revisions of a resource are kept whether anybody refers to them or not.
const kept = 10

// prune deletes revisions that are old and that nobody refers to.
func (r *Reconciler) prune(ctx context.Context, config *unstructured.Unstructured) error {
	history, err := revision.History(r.Revisions, r.Component, nameOf(config))
	if err != nil || len(history) <= kept {
		return err
	}
	live, err := revision.Hash(config)
	if err != nil {
		return err
	}
	referred, err := r.References.Of(r.Component, nameOf(config))
	if err != nil {
		return err
	}
	for _, old := range history[kept:] {
		hash := revision.HashOf(old)
		if hash == live || referred.Desired[hash] || referred.Good[hash] || old.DeletionTimestamp != nil {
			continue
		}
		// A revision that has changed since may be the newest again.
		err := r.Client.AppsV1().ControllerRevisions(old.Namespace).Delete(ctx, old.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("cannot delete ControllerRevision \"%s/%s\": %w", old.Namespace, old.Name, err)
		}
	}
	return nil
}
