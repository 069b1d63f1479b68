// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// RemoveOptions configure which objects a removal deletes besides the payload.
type RemoveOptions struct {
	// Namespace is the install namespace, unless the cluster records another one.
	Namespace string
	// Foundation removes the CRDs and the install namespace too. The removal then waits as long as the cluster has resources of
	// users.
	Foundation bool
	// UserResources removes the resources of users as well.
	UserResources bool

	// keepNamespace keeps the install namespace, because the cluster had the namespace before.
	keepNamespace bool
}

// Remove removes the installation from the cluster, one step a call. waiting names what the next step waits for; empty means
// that the removal is complete. ErrNothingInstalled, an *inventory.OwnershipError and an *inventory.UnmanagedError mean that the
// cluster has no installation of the owner. A *clustercache.BlockedError means that the cluster refuses a request that has to come first.
func (i *Installation) Remove(ctx context.Context, options RemoveOptions) (waiting string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.anchor = nil
	waiting, err = i.removeInstallation(ctx, options)
	return waiting, clustercache.WrapRefusal(err)
}

func (i *Installation) removeInstallation(ctx context.Context, options RemoveOptions) (waiting string, err error) {
	a, err := i.findAnchor(ctx, options.Namespace) // labelled objects could belong to another owner
	if a != nil && err == nil {
		options.Namespace = a.Namespace
		err = i.store.ConfirmClaim(ctx, a)
	}
	if err != nil {
		return "", err
	}
	inv, err := i.listInstalledItems(ctx, a)
	if err != nil {
		return "", err
	}
	if a == nil && len(inv) == 0 && !i.removalBegun { // the anchor leaves with the namespace
		return i.awaitFormerRemoval(ctx, options)
	}
	i.removalBegun = true
	if options.keepNamespace, err = i.keepsNamespace(ctx, a, options.Namespace); err != nil {
		return "", err
	}
	left := maps.Clone(inv)
	waiting, err = i.removeStages(ctx, left, options)
	if waiting == "" && err == nil && a == nil && options.Foundation && !options.keepNamespace {
		return i.awaitNamespace(ctx, options.Namespace)
	}
	if waiting == "" && err == nil {
		return i.store.Delete(ctx, a)
	}
	return waiting, errors.Join(err, i.store.WriteRemaining(ctx, a, left))
}

// keepsNamespace reports whether the cluster had the install namespace before. The namespace lacks our label, or has the mark of an
// older manager, also when the anchor is lost.
func (i *Installation) keepsNamespace(ctx context.Context, a *inventory.Anchor, name string) (bool, error) {
	if a != nil && a.Annotations[inventory.KeepAnnotation] != "" {
		return true, nil
	}
	ns, err := i.cluster.Core.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot get Namespace %q: %w", name, err)
	}
	return ns.Labels[api.ComponentLabel] != string(i.owner.Component) || ns.Annotations[inventory.KeepAnnotation] != "", nil
}

// awaitFormerRemoval returns what the end of a removal waits for that an earlier process began, and ErrNothingInstalled without such a removal.
func (i *Installation) awaitFormerRemoval(ctx context.Context, options RemoveOptions) (waiting string, err error) {
	if !options.Foundation {
		return "", ErrNothingInstalled
	}
	keeps, err := i.keepsNamespace(ctx, nil, options.Namespace)
	if err == nil && !keeps {
		waiting, err = i.awaitNamespace(ctx, options.Namespace)
	}
	if waiting == "" && err == nil {
		err = ErrNothingInstalled
	}
	return waiting, err
}

// awaitNamespace returns what the end of the install namespace waits for: objects of users in the namespace may have finalizers. The anchor, which
// records the namespace, leaves with the other objects of the namespace.
func (i *Installation) awaitNamespace(ctx context.Context, name string) (waiting string, err error) {
	ns, err := i.cluster.Core.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp == nil {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot get Namespace %q: %w", name, err)
	}
	waiting = fmt.Sprintf("waiting for Namespace %s to be gone", name)
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			waiting += "; " + message.OneLine(c.Message, message.MaxNote)
		}
	}
	return waiting, nil
}

// clearKnativeResources deletes the Service of a verification, and then, for a removal of the foundation, awaits the end of the resources of users:
// Knative's objects of the Service would count as resources of users.
func (i *Installation) clearKnativeResources(ctx context.Context, inv inventory.Items, options RemoveOptions) (waiting string, err error) {
	waiting, err = i.removeVerification(ctx, inv)
	if waiting != "" || err != nil || !options.Foundation {
		return waiting, err
	}
	return i.clearUserResources(ctx, inv, options)
}

func (i *Installation) removeStages(ctx context.Context, inv inventory.Items, options RemoveOptions) (waiting string, err error) {
	if waiting, err := i.clearKnativeResources(ctx, inv, options); waiting != "" || err != nil {
		return waiting, err
	}
	for _, s := range inventory.RemovalOrder() {
		if s == render.StageWorkload {
			if waiting, err := i.stopWorkloads(ctx, inv); waiting != "" || err != nil {
				return waiting, err
			}
		}
		if waiting, err := i.removeItems(ctx, inv, func(e inventory.Item) bool { return e.Stage() == s }); waiting != "" || err != nil {
			return waiting, err
		}
	}
	if !options.Foundation {
		return "", nil
	}
	if waiting, err := i.removeItems(ctx, inv, func(e inventory.Item) bool { return e.Kind == "CustomResourceDefinition" }); waiting != "" || err != nil {
		return waiting, err
	}
	return i.removeItems(ctx, inv, func(e inventory.Item) bool {
		return e.Kind == "Namespace" && !(options.keepNamespace && e.Name == options.Namespace)
	})
}

// removeItems deletes the matching items and drops those that are gone. waiting names the others.
func (i *Installation) removeItems(ctx context.Context, inv inventory.Items, match func(inventory.Item) bool) (waiting string, err error) {
	var all, batch []inventory.Item
	for _, e := range inv.Sorted() {
		if !match(e) {
			continue
		}
		all = append(all, e)
		if i.mayDelete(e.ID(), i.clock.Now()) {
			batch = append(batch, e)
		}
	}
	if err := i.deleteItems(ctx, batch, inv); err != nil {
		return "", err
	}
	var refused, left []string
	for _, e := range all {
		if _, there := inv[e.ID()]; !there {
			continue
		}
		if f := i.failedDeletions[e.ID()]; f != nil {
			refused = append(refused, e.ID().String()+": "+f.Cause)
		} else {
			left = append(left, e.ID().String())
		}
	}
	left = append(refused, left...) // refused objects, which need a person, come first
	if len(left) == 0 {
		return "", nil
	}
	return "waiting for these to be gone: " + delivery.Listed(left), nil
}

// deleteItems deletes objects and drops the items of objects that are gone or not ours. Refused deletions are recorded as
// failures. An error means that the cluster is unavailable.
func (i *Installation) deleteItems(ctx context.Context, batch []inventory.Item, inv inventory.Items) error {
	var mu sync.Mutex
	requests := newRequestBatch(ctx)
	for _, e := range batch {
		requests.run(func(ctx context.Context) error {
			gone, err := i.deleteItem(ctx, &e)
			if clustercache.IsUnavailable(err) {
				return fmt.Errorf("cannot delete %s: %w", e.ID(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				i.recordFailedDeletion(e.ID(), err)
				return nil
			}
			delete(i.failedDeletions, e.ID())
			if gone {
				delete(inv, e.ID())
				delete(i.writtenVersions, e.ID())
			}
			return nil
		})
	}
	return requests.wait()
}

// deleteItem deletes an object of this installation. gone reports that the object is gone or belongs to another owner.
func (i *Installation) deleteItem(ctx context.Context, e *inventory.Item) (gone bool, err error) {
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	client := i.cluster.Metadata.Resource(e.GVR()).Namespace(e.Namespace)
	for range 2 { // the second iteration checks the result of the deletion
		o, err := client.Get(ctx, e.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			err = i.confirmGone(ctx, e.GVR(), e.Name, err)
			return err == nil, err
		case err != nil:
			return false, err
		case !i.mayRemove(o, e):
			return true, nil
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
