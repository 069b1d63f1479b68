// Copyright Contributors to the Open Cluster Management project

package revisions

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Reconciler records the KnativeServings or the KnativeEventings.
type Reconciler struct {
	Component api.Component
	Configs   cache.GenericLister
	// Revisions is the cache of ControllerRevisions with api.RevisionLabel, with the indexes of package revision.
	Revisions cache.Indexer
	// References are to revisions that may not go.
	References *revision.References
	Client     kubernetes.Interface

	seen seen
}

// staleRetry is after how long a reconcile that has read an old object is done again.
const staleRetry = time.Second

// Reconcile records what was seen of one resource and has not been recorded, and prunes its history.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	configs := r.seen.of(req.NamespacedName)
	if len(configs) == 0 { // it is about a revision, or about what is recorded
		live, err := revision.Live(r.Configs, r.Component, req.NamespacedName)
		if err != nil || live == nil {
			return reconcile.Result{}, err
		}
		configs = append(configs, live)
	}
	for _, config := range configs {
		err := r.record(ctx, config)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return reconcile.Result{RequeueAfter: staleRetry}, nil // the cache is behind; no fault
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		r.seen.done(req.NamespacedName, config)
	}
	return reconcile.Result{}, r.prune(ctx, configs[len(configs)-1])
}

// record makes the newest revision that of the config.
func (r *Reconciler) record(ctx context.Context, config *unstructured.Unstructured) error {
	want, err := revision.New(r.Component, config, 0)
	if err != nil {
		return err
	}
	cached, err := revision.History(r.Revisions, r.Component, nameOf(config))
	if err != nil {
		return err
	}
	if recorded(cached, want) {
		return nil
	}
	history, err := r.history(ctx, config) // the cache may be behind, and numbers are given once
	if err != nil {
		return err
	}
	number := int64(1)
	if len(history) > 0 {
		number = history[0].Revision + 1
	}
	if err := r.adopt(ctx, history, want); err != nil {
		return err
	}
	for _, have := range history {
		if have.Name == want.Name {
			if have.Revision == number-1 { // it is the newest, and keeps its number
				number = have.Revision
			}
			return r.renew(ctx, have, want, number)
		}
	}
	want.Revision = number
	_, err = r.Client.AppsV1().ControllerRevisions(want.Namespace).Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return r.reclaim(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("cannot record a spec of %s %q: %w", r.Component.Kind(), nameOf(config), err)
	}
	return nil
}

// reclaim mends a revision that somebody has changed so that it does not count as one any more.
func (r *Reconciler) reclaim(ctx context.Context, want *appsv1.ControllerRevision) error {
	client := r.Client.AppsV1().ControllerRevisions(want.Namespace)
	have, err := client.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot get ControllerRevision \"%s/%s\": %w", want.Namespace, want.Name, err)
	}
	have.Labels, have.Annotations, have.OwnerReferences, have.Revision = want.Labels, want.Annotations, want.OwnerReferences, want.Revision
	if _, err := revision.Restore(have); err != nil { // the data cannot be changed
		err = client.Delete(ctx, have.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &have.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot delete ControllerRevision \"%s/%s\", which holds another spec: %w", have.Namespace, have.Name, err)
		}
		if _, err = client.Create(ctx, want, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot record a spec as ControllerRevision \"%s/%s\": %w", want.Namespace, want.Name, err)
		}
		return nil
	}
	if _, err := client.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot mend ControllerRevision \"%s/%s\": %w", have.Namespace, have.Name, err)
	}
	return nil
}

// recorded tells that the newest revision is as it should be. A history of another resource of the same name is not.
func recorded(history []*appsv1.ControllerRevision, want *appsv1.ControllerRevision) bool {
	for _, have := range history {
		if !owned(have, want) {
			return false
		}
	}
	return len(history) > 0 && history[0].Name == want.Name && maps.Equal(history[0].Annotations, annotations(history[0], want))
}

// history reads the revisions of the resource's name from the hub, the newest first.
func (r *Reconciler) history(ctx context.Context, config *unstructured.Unstructured) ([]*appsv1.ControllerRevision, error) {
	list, err := r.Client.AppsV1().ControllerRevisions(config.GetNamespace()).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(revision.Labels(r.Component, config.GetName())).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the revisions of %s %q: %w", r.Component.Kind(), nameOf(config), err)
	}
	var out []*appsv1.ControllerRevision
	for i := range list.Items {
		if _, name, ok := revision.ResourceOf(&list.Items[i]); ok && name == nameOf(config) {
			out = append(out, &list.Items[i])
		}
	}
	revision.SortNewestFirst(out)
	return out, nil
}

// adopt keeps the history of a resource that was deleted and made anew: clusters have its specs, and would be left without
// them when the revisions go with their owner.
func (r *Reconciler) adopt(ctx context.Context, history []*appsv1.ControllerRevision, want *appsv1.ControllerRevision) error {
	for _, have := range history {
		if owned(have, want) || have.DeletionTimestamp != nil {
			continue
		}
		have.OwnerReferences = want.OwnerReferences
		changed, err := r.Client.AppsV1().ControllerRevisions(have.Namespace).Update(ctx, have, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("cannot adopt ControllerRevision \"%s/%s\": %w", have.Namespace, have.Name, err)
		}
		changed.DeepCopyInto(have)
	}
	return nil
}

func owned(have, want *appsv1.ControllerRevision) bool {
	return len(have.OwnerReferences) == 1 && have.OwnerReferences[0].UID == want.OwnerReferences[0].UID
}

// annotations are those that the revision should have. A pin stays until another one takes its place: it is gone from the
// resource for a moment whenever the spec gets an empty version.
func annotations(have, want *appsv1.ControllerRevision) map[string]string {
	out := maps.Clone(have.Annotations)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, api.InstallNamespaceAnnotation)
	maps.Copy(out, want.Annotations)
	return out
}

// renew gives a revision that is there the number, and the annotations that the resource has now. Its data cannot change.
func (r *Reconciler) renew(ctx context.Context, have, want *appsv1.ControllerRevision, number int64) error {
	wanted := annotations(have, want)
	if have.Revision == number && maps.Equal(have.Annotations, wanted) {
		return nil
	}
	have.Revision, have.Annotations = number, wanted
	if _, err := r.Client.AppsV1().ControllerRevisions(have.Namespace).Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot renew ControllerRevision \"%s/%s\": %w", have.Namespace, have.Name, err)
	}
	return nil
}

func nameOf(config *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
}

// seen are the objects of events that were not recorded yet, in their order.
type seen struct {
	mu      sync.Mutex
	configs map[types.NamespacedName][]*unstructured.Unstructured
}

func (s *seen) add(config *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.configs == nil {
		s.configs = map[types.NamespacedName][]*unstructured.Unstructured{}
	}
	s.configs[nameOf(config)] = append(s.configs[nameOf(config)], config)
}

func (s *seen) of(name types.NamespacedName) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*unstructured.Unstructured{}, s.configs[name]...)
}

// done forgets the first object, which is config.
func (s *seen) done(name types.NamespacedName, config *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	configs := s.configs[name]
	if len(configs) == 0 || configs[0] != config {
		return
	}
	if s.configs[name] = configs[1:]; len(configs) == 1 {
		delete(s.configs, name)
	}
}
