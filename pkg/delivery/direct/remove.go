// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
)

// RemoveOptions say what is to go besides the payload.
type RemoveOptions struct {
	// Namespace is the install namespace, unless the cluster records another one.
	Namespace string
	// Foundation removes the CRDs and the install namespace too; it waits as long as there are resources of users.
	Foundation bool
	// UserResources removes these as well.
	UserResources bool

	// keepNamespace keeps the install namespace all the same: it was there before.
	keepNamespace bool
}

// Remove takes the installation from the cluster, a step at a time. waiting says what the next step waits for; when it is
// empty, nothing is left. A *RivalError or *ForeignError means that there is nothing of the owner's, and a *BlockedError that
// the cluster refuses what has to come first.
func (i *Installation) Remove(ctx context.Context, options RemoveOptions) (waiting string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.anchor = nil
	waiting, err = i.remove(ctx, options)
	return waiting, blockedBy(err)
}

func (i *Installation) remove(ctx context.Context, options RemoveOptions) (waiting string, err error) {
	a, err := i.readAnchor(ctx, options.Namespace)
	if err != nil {
		return "", err
	}
	if a == nil { // never made, or lost, when what has our label could be another resource's; or it is elsewhere
		a, err = i.elsewhere(ctx)
	}
	if a != nil && err == nil {
		options.Namespace = a.Namespace
		err = i.confirm(ctx, a)
	}
	if err != nil {
		return "", err
	}
	inv, err := i.sweep(ctx, a)
	if err != nil {
		return "", err
	}
	if options.Foundation {
		if waiting, err := i.clearUserResources(ctx, inv, options); waiting != "" || err != nil {
			return waiting, err
		}
	}
	if options.keepNamespace, err = i.keepsNamespace(ctx, a, options.Namespace); err != nil {
		return "", err
	}
	left := maps.Clone(inv)
	waiting, err = i.removeStages(ctx, left, options)
	if waiting == "" && err == nil {
		return i.deleteAnchor(ctx, a)
	}
	return waiting, errors.Join(err, i.shrinkAnchor(ctx, a, left))
}

// keepsNamespace tells whether the install namespace was there before. The namespace says so too, since the anchor may be lost.
func (i *Installation) keepsNamespace(ctx context.Context, a *anchor, name string) (bool, error) {
	if a != nil && a.Annotations[keepNamespaceAnnotation] != "" {
		return true, nil
	}
	ns, err := i.cluster.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot get Namespace %q: %w", name, err)
	}
	return ns.Annotations[keepNamespaceAnnotation] != "", nil
}

func (i *Installation) removeStages(ctx context.Context, inv inventory, options RemoveOptions) (waiting string, err error) {
	for _, s := range removalOrder() {
		if waiting, err := i.removeAll(ctx, inv, func(e entry) bool { return e.stage() == s }); waiting != "" || err != nil {
			return waiting, err
		}
	}
	if !options.Foundation {
		return "", nil
	}
	if waiting, err := i.removeAll(ctx, inv, func(e entry) bool { return e.Kind == "CustomResourceDefinition" }); waiting != "" || err != nil {
		return waiting, err
	}
	return i.removeAll(ctx, inv, func(e entry) bool {
		return e.Kind == "Namespace" && !(options.keepNamespace && e.Name == options.Namespace)
	})
}

func (e *entry) stage() stage { return stageOf(schema.GroupKind{Group: e.Group, Kind: e.Kind}) }

// removeAll deletes the entries that match and drops those that are gone. waiting names those that are not.
func (i *Installation) removeAll(ctx context.Context, inv inventory, match func(entry) bool) (waiting string, err error) {
	var all, batch []entry
	for _, e := range inv.sorted() {
		if !match(e) {
			continue
		}
		all = append(all, e)
		if i.deletable(e.id(), i.clock.Now()) {
			batch = append(batch, e)
		}
	}
	if err := i.prune(ctx, batch, inv); err != nil {
		return "", err
	}
	var refused, left []string
	for _, e := range all {
		if _, there := inv[e.id()]; !there {
			continue
		}
		if f := i.undeleted[e.id()]; f != nil {
			refused = append(refused, e.id().String()+": "+f.Cause)
		} else {
			left = append(left, e.id().String())
		}
	}
	left = append(refused, left...) // who has to do something comes first
	if len(left) == 0 {
		return "", nil
	}
	return "waiting for these to be gone: " + delivery.Listed(left), nil
}

// prune deletes objects and takes those that are gone, or not ours, from the inventory. What the cluster refuses to delete
// is remembered; an error means that it could not be used.
func (i *Installation) prune(ctx context.Context, batch []entry, inv inventory) error {
	var mu sync.Mutex
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(inParallel)
	for _, e := range batch {
		g.Go(func() error {
			gone, err := i.deleteOne(groupCtx, &e)
			if unusable(err) {
				return fmt.Errorf("cannot delete %s: %w", e.id(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				i.failDeletion(e.id(), err)
				return nil
			}
			delete(i.undeleted, e.id())
			if gone {
				delete(inv, e.id())
				delete(i.written, e.id())
			}
			return nil
		})
	}
	return g.Wait()
}

// deleteOne deletes an object that is ours, and tells whether it is gone, or somebody else's.
func (i *Installation) deleteOne(ctx context.Context, e *entry) (gone bool, err error) {
	client := i.cluster.metadata.Resource(e.gvr()).Namespace(e.Namespace)
	for range 2 { // the second time to see what came of it
		o, err := client.Get(ctx, e.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		case o.Labels[api.ComponentLabel] != string(i.owner.Component), e.UID != "" && o.UID != e.UID:
			return true, nil // the inventory could say anything
		case o.DeletionTimestamp != nil:
			return false, nil
		}
		background := metav1.DeletePropagationBackground
		err = client.Delete(ctx, e.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &o.UID}, PropagationPolicy: &background,
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	return false, nil
}

func (i *Installation) deleteAnchor(ctx context.Context, a *anchor) (waiting string, err error) {
	if a == nil {
		return "", nil
	}
	err = i.cluster.kube.CoreV1().ConfigMaps(a.Namespace).Delete(ctx, a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return "", nil
	case unusable(err):
		return "", fmt.Errorf("cannot delete ConfigMap \"%s/%s\": %w", a.Namespace, a.Name, err)
	}
	return fmt.Sprintf("waiting for these to be gone: ConfigMap %s/%s: its deletion was refused: %v", a.Namespace, a.Name, err), nil
}

// shrinkAnchor records what is left.
func (i *Installation) shrinkAnchor(ctx context.Context, a *anchor, left inventory) error {
	if a == nil || maps.Equal(a.inventory, left) {
		return nil
	}
	text, err := left.encode()
	if err != nil {
		return err
	}
	changed := a.DeepCopy()
	changed.Data = map[string]string{inventoryKey: text}
	if _, err := i.cluster.kube.CoreV1().ConfigMaps(a.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("cannot record what is left in namespace %q: %w", a.Namespace, err)
	}
	return nil
}
