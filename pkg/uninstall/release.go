// Copyright Contributors to the Open Cluster Management project

package uninstall

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

// Step is one write of a release.
type Step struct {
	// Text names the object and the change.
	Text string
	// Group names the ManagedClusterAddOn or the KnativeFleet of the step. A step needs the success of all earlier steps of its group.
	Group string
	run   func(context.Context) error
}

// inGroup returns the step in a group.
func (s Step) inGroup(name string) Step {
	s.Group = name
	return s
}

// addOnGroup returns the group of the steps for a component on a cluster.
func addOnGroup(cluster string, component api.Component) string {
	return fmt.Sprintf("ManagedClusterAddOn %s/%s", cluster, component)
}

// Run carries the step out. A repeated step, and a step on an object that is gone, changes nothing.
func (s Step) Run(ctx context.Context) error {
	if err := s.run(ctx); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot %s: %w", s.Text, err)
	}
	return nil
}

// PlanRelease returns the steps of a release in order: the ManifestWorks give up the objects on the clusters before the add-ons, and
// with the add-ons the works, may be deleted. A work that the agent has applied without ownership is deleted; another work needs a
// further release after the agent has applied the work. Steps of different groups do not need each other.
func PlanRelease(ctx context.Context, clients hub.Clients) ([]Step, error) {
	steps, err := planWorks(ctx, clients)
	if err != nil {
		return nil, err
	}
	addOns, err := listAddOns(ctx, clients.AddOns)
	if err != nil {
		return nil, err
	}
	for i := range addOns {
		a, client := &addOns[i], clients.AddOns.AddonV1beta1().ManagedClusterAddOns(addOns[i].Namespace)
		if !slices.ContainsFunc(a.Finalizers, isOurs) {
			continue
		}
		steps = append(steps, newStep("remove the finalizer of "+describeObject("ManagedClusterAddOn", a), func(ctx context.Context) error {
			read, err := client.Get(ctx, a.Name, metav1.GetOptions{})
			if err == nil {
				_, err = hub.Patch(ctx, client, read, func(changed *addonv1beta1.ManagedClusterAddOn) { removeFinalizers(changed) })
			}
			return err
		}).inGroup(addOnGroup(a.Namespace, api.Component(a.Name))))
	}
	held, err := listHeldConfigs(ctx, clients.Configs)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		cluster, _, _ := unstructured.NestedString(h.config.Object, "spec", "clusterProfileRef", "name")
		steps = append(steps, planPatch(clients.Configs, h.component.Resource(), h.config,
			"remove the finalizer of "+describeObject(h.component.Kind(), h.config), func(changed *unstructured.Unstructured) { removeFinalizers(changed) },
		).inGroup(addOnGroup(cluster, h.component)))
	}
	fleets, err := planFleets(ctx, clients.Configs)
	return append(steps, fleets...), err
}

// planFleets returns the steps that release KnativeFleets: the children of a KnativeFleet with deletionPolicy Orphan get no owner, so that
// Kubernetes does not delete the children with the KnativeFleet.
func planFleets(ctx context.Context, configs dynamic.Interface) ([]Step, error) {
	fleets, err := listHeldFleets(ctx, configs)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for i := range fleets {
		fleet := &fleets[i]
		if policy, _, _ := unstructured.NestedString(fleet.Object, "spec", "deletionPolicy"); policy == string(fleetv1alpha1.DeletionPolicyOrphan) {
			children, err := planChildren(ctx, configs, fleet)
			if err != nil {
				return nil, err
			}
			steps = append(steps, children...)
		}
		steps = append(steps, planPatch(configs, fleetv1alpha1.Resource(), fleet,
			"remove the finalizer of "+describeObject("KnativeFleet", fleet), func(changed *unstructured.Unstructured) { removeFinalizers(changed) },
		).inGroup(fleetGroup(fleet)))
	}
	return steps, nil
}

// fleetGroup returns the group of the steps for a KnativeFleet.
func fleetGroup(fleet *unstructured.Unstructured) string {
	return fmt.Sprintf("KnativeFleet %s/%s", fleet.GetNamespace(), fleet.GetName())
}

// planChildren returns the steps that remove the KnativeFleet from the owners of the children.
func planChildren(ctx context.Context, configs dynamic.Interface, fleet *unstructured.Unstructured) ([]Step, error) {
	var steps []Step
	for _, c := range api.Components() {
		list, err := configs.Resource(c.Resource()).Namespace(fleet.GetNamespace()).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list the %ss of namespace %q: %w", c.Kind(), fleet.GetNamespace(), err)
		}
		for i := range list.Items {
			child := &list.Items[i]
			if !metav1.IsControlledBy(child, fleet) {
				continue
			}
			steps = append(steps, planPatch(configs, c.Resource(), child, "remove the KnativeFleet from the owners of "+describeObject(c.Kind(), child),
				func(changed *unstructured.Unstructured) {
					changed.SetOwnerReferences(slices.DeleteFunc(changed.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == fleet.GetUID() }))
				}).inGroup(fleetGroup(fleet)))
		}
	}
	return steps, nil
}

// planPatch returns a step that changes an object.
func planPatch(client dynamic.Interface, resource schema.GroupVersionResource, o *unstructured.Unstructured, text string, change func(*unstructured.Unstructured)) Step {
	objects := client.Resource(resource).Namespace(o.GetNamespace())
	return newStep(text, func(ctx context.Context) error {
		read, err := objects.Get(ctx, o.GetName(), metav1.GetOptions{})
		if err == nil {
			_, err = hub.Patch(ctx, objects, read, change)
		}
		return err
	})
}

// newStep returns a step that repeats a write after a conflict: agents and OCM write the same objects. change reads the object again. The step
// returns the error of the last attempt: RetryOnConflict takes a request that timed out, or was interrupted, for a success.
func newStep(text string, change func(context.Context) error) Step {
	return Step{Text: text, run: func(ctx context.Context) (err error) {
		_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			err = change(ctx)
			return err
		})
		return err
	}}
}

func removeFinalizers(o client.Object) {
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), isOurs))
}

// planWorks returns the steps for all works of the add-ons; none when the hub does not serve ManifestWorks.
func planWorks(ctx context.Context, clients hub.Clients) ([]Step, error) {
	var steps []Step
	for _, c := range api.Components() {
		for _, selector := range []string{
			addonv1beta1.AddonLabelKey + "=" + c.AddOnName(), api.FoundationLabel + "=" + string(c) + ",!" + addonv1beta1.AddonLabelKey,
		} {
			pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return clients.Works.WorkV1().ManifestWorks(metav1.NamespaceAll).List(ctx, options)
			})
			err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
				if w, isWork := o.(*workv1.ManifestWork); isWork {
					for _, step := range planWork(clients, c, w) {
						steps = append(steps, step.inGroup(addOnGroup(w.Namespace, c)))
					}
				}
				return nil
			})
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("cannot list ManifestWorks: %w", err)
			}
		}
	}
	return steps, nil
}

// planWork returns the step for a work; none for a work that is being deleted, which no hub can stop, and for a work whose agent has
// not yet given up the objects. The step does not keep the work: the works of a large fleet fill the memory.
func planWork(clients hub.Clients, component api.Component, w *workv1.ManifestWork) []Step {
	works, name := clients.Works.WorkV1().ManifestWorks(w.Namespace), describeObject("ManifestWork", w)
	workName, uid := w.Name, w.UID
	switch {
	case w.DeletionTimestamp != nil, manifestwork.IsOrphaned(w) && !manifestwork.IsDeletable(w):
		return nil
	case manifestwork.IsOrphaned(w), w.Name == manifestwork.GateName(component), w.Name == manifestwork.VerificationName(component):
		// Gate and verification have no object that a user needs.
		return []Step{newStep("delete "+name, func(ctx context.Context) error {
			return works.Delete(ctx, workName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		})}
	}
	return []Step{newStep("make the cluster keep the objects of "+name, func(ctx context.Context) error {
		read, err := works.Get(ctx, workName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if read, err = restoreWorkloads(read); err != nil {
			return err
		}
		_, err = works.Update(ctx, manifestwork.Orphaned(read), metav1.UpdateOptions{})
		return err
	})}
}

// restoreWorkloads returns the work with webhook configurations that need no webhook when a removal had stopped the workloads.
func restoreWorkloads(w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	stopped, err := manifestwork.WorkloadsStopped(w)
	if err != nil || !stopped {
		return w, err
	}
	return manifestwork.RestoreWithoutWebhooks(w)
}
