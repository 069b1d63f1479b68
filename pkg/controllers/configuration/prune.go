// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// historyLimit is the number of revisions of a resource that are kept without a reference from OCM.
const historyLimit = 10

// childHistoryLimit is historyLimit for a resource of a KnativeFleet: the KnativeFleet has the history for rollbacks, and each of thousands of
// resources has revisions of its own.
const childHistoryLimit = 3

// limitHistory returns the number of revisions of the resource that are kept without a reference from OCM.
func limitHistory(config *unstructured.Unstructured) int {
	if owner := metav1.GetControllerOf(config); owner != nil && owner.Kind == fleetv1alpha1.Kind {
		return childHistoryLimit
	}
	return historyLimit
}

// pruneRevisions deletes the revisions beyond the limit to which OCM does not refer, and keeps the last known good spec: OCM refers to no revision of
// a KnativeFleet, nor of a resource without a work agent.
func (r *Recorder) pruneRevisions(ctx context.Context, config *unstructured.Unstructured) error {
	history, err := revision.History(r.Revisions, r.Kind, client.ObjectKeyFromObject(config))
	limit := limitHistory(config)
	if err != nil || len(history) <= limit {
		return err
	}
	current, err := revision.Hash(config)
	if err != nil {
		return err
	}
	referred, err := r.References.Of(r.Kind, client.ObjectKeyFromObject(config))
	if err != nil {
		return err
	}
	isCompleted := func(r *appsv1.ControllerRevision) bool {
		return revision.HashOf(r) != current && r.Annotations[api.CompletedAnnotation] != ""
	}
	lastGood := slices.IndexFunc(history, isCompleted)
	for i, old := range history {
		hash := revision.HashOf(old)
		if i < limit || i == lastGood || hash == current || referred.Desired[hash] || referred.Named[hash] || referred.Good[hash] || old.DeletionTimestamp != nil {
			continue
		}
		// A revision that changed since the cache read it may be the newest again.
		err := r.RevisionClient.AppsV1().ControllerRevisions(old.Namespace).Delete(ctx, old.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot delete ControllerRevision \"%s/%s\": %w", old.Namespace, old.Name, err)
		}
	}
	return nil
}
