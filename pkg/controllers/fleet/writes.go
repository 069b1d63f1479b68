// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
)

func (p *pass) childClient(component api.Component) dynamic.ResourceInterface {
	return p.Client.Resource(component.Resource()).Namespace(p.fleet.Namespace)
}

func (p *pass) fleetClient() dynamic.ResourceInterface {
	return p.Client.Resource(fleetv1alpha1.Resource()).Namespace(p.fleet.Namespace)
}

// writeChild creates a child, or writes the template into a child. A second write records the stored spec where the API server stored
// another spec: otherwise every pass would take the difference for an edit.
func (p *pass) writeChild(ctx context.Context, t *templates, component api.Component, name string, child *unstructured.Unstructured) error {
	c := p.childClient(component)
	desired := newChild(p.fleet, t, component, name, p.now)
	var stored *unstructured.Unstructured
	var err error
	if child == nil {
		if stored, err = c.Create(ctx, desired, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create %s %q: %w", component.Kind(), p.fleet.Namespace+"/"+name, err)
		}
	} else {
		stored, err = hub.Patch(ctx, c, child, func(changed *unstructured.Unstructured) {
			applyTemplate(changed, p.fleet, t, component)
			stampRevision(changed, t.revision, p.now)
		})
		if err != nil {
			return err
		}
	}
	if reflect.DeepEqual(stored.Object["spec"], desired.Object["spec"]) {
		return nil
	}
	hash, err := hashJSON(stored.Object["spec"])
	if err != nil {
		return err
	}
	_, err = hub.Patch(ctx, c, stored, func(changed *unstructured.Unstructured) {
		changed.SetAnnotations(mergeMaps(changed.GetAnnotations(), map[string]string{api.FleetStoredSpecAnnotation: hash}))
	})
	return err
}

// removeChildren deletes children that writeStatus has counted, and emits an Event that names the deleted children.
func (p *pass) removeChildren(ctx context.Context, remove []removalCandidate) error {
	var errs []error
	var removed []removalCandidate
	for _, c := range remove {
		uid := c.child.GetUID()
		err := p.childClient(c.component).Delete(ctx, c.child.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("cannot delete %s %q: %w", c.component.Kind(), p.fleet.Namespace+"/"+c.child.GetName(), err))
			continue
		}
		removed = append(removed, c)
	}
	if len(removed) > 0 {
		p.Events.Eventf(p.read, nil, corev1.EventTypeNormal, "ChildrenRemoved", "Remove", "%s",
			message.Shorten("the clusters of these children are no longer selected, and the children are deleted: "+listCandidates(removed), message.MaxNote))
	}
	return errors.Join(errs...)
}

// writeStatus writes the status if it differs, at most once in statusInterval, and reports whether the status is written. The pass deletes the
// children of remove afterwards: a killed manager counts a removal twice rather than never.
func (p *pass) writeStatus(ctx context.Context, remove []removalCandidate) (written bool, err error) {
	if err := p.removeConfirmation(ctx, len(remove)); err != nil {
		return false, err
	}
	uncounted := slices.DeleteFunc(slices.Clone(remove), func(c removalCandidate) bool { return c.counted })
	if len(uncounted) > 0 {
		p.report.removals = recordRemovals(p.report.removals, len(uncounted), p.now)
	}
	last := p.fleet.Status
	last.Conditions = slices.DeleteFunc(slices.Clone(last.Conditions), func(c metav1.Condition) bool { return !slices.Contains(conditionTypes(), c.Type) })
	now := computeStatus(&p.report, &last, p.now)
	if equalStatus(&last, &now) {
		return true, nil
	}
	if wait := p.times.written.Add(statusInterval).Sub(p.now); wait > 0 {
		p.requeueWithin(wait)
		return false, nil
	}
	stored, err := p.patchStatus(ctx, &last, &now)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	p.read, p.times.written = stored, p.now
	for _, c := range uncounted {
		p.times.counted[c.child.GetUID()] = p.now
	}
	p.emitReady(&last, &now)
	return true, nil
}

// conditionTypes lists every type of condition that this manager, or an earlier version, writes into a KnativeFleet.
func conditionTypes() []string { return slices.Collect(maps.Keys(fleetv1alpha1.Reasons())) }

// patchStatus replaces the fields and conditions of last by the fields and conditions of now. Fields and conditions of other writers,
// such as a newer manager, stay.
func (p *pass) patchStatus(ctx context.Context, last, now *fleetv1alpha1.KnativeFleetStatus) (*unstructured.Unstructured, error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(last)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the last status of KnativeFleet %q: %w", client.ObjectKeyFromObject(p.fleet), err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(now)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the status of KnativeFleet %q: %w", client.ObjectKeyFromObject(p.fleet), err)
	}
	return hub.Patch(ctx, p.fleetClient(), p.read, func(changed *unstructured.Unstructured) {
		status, ok := changed.Object["status"].(map[string]any)
		if !ok {
			status = map[string]any{}
			changed.Object["status"] = status
		}
		conditions, _ := fields["conditions"].([]any)
		conditions = append(conditions, hub.ConditionsOfOthers(status["conditions"], conditionTypes())...)
		maps.DeleteFunc(status, func(field string, _ any) bool { _, known := before[field]; return known })
		maps.Copy(status, fields)
		status["conditions"] = conditions
	}, "status")
}

// emitReady emits an Event when the KnativeFleet becomes Ready, or is not Ready for another reason.
func (p *pass) emitReady(last, now *fleetv1alpha1.KnativeFleetStatus) {
	before, c := apimeta.FindStatusCondition(last.Conditions, fleetv1alpha1.Ready), apimeta.FindStatusCondition(now.Conditions, fleetv1alpha1.Ready)
	if before != nil && before.Reason == c.Reason {
		return
	}
	kind := corev1.EventTypeWarning
	if c.Status == metav1.ConditionTrue || c.Reason == fleetv1alpha1.ReasonProgressing || c.Reason == fleetv1alpha1.ReasonPaused {
		kind = corev1.EventTypeNormal
	}
	p.Events.Eventf(p.read, nil, kind, c.Reason, "Report", "%s", message.Shorten(c.Message, message.MaxNote))
}

// removeConfirmation removes a confirmation after all confirmed removals: the confirmation must not apply to the next
// mass removal. A pass that has decided on no removal, as in a pause, leaves the confirmation to the next pass.
func (p *pass) removeConfirmation(ctx context.Context, removals int) error {
	_, confirmed := p.fleet.Annotations[api.RemovalAnnotation]
	settling := p.report.held != nil && p.report.held.reason == fleetv1alpha1.ReasonSettling
	if !confirmed || !p.decided || removals > 0 || settling || p.report.problem != nil {
		return nil
	}
	return p.patchFleet(ctx, func(changed *unstructured.Unstructured) {
		annotations := maps.Clone(changed.GetAnnotations())
		delete(annotations, api.RemovalAnnotation)
		changed.SetAnnotations(annotations)
	})
}

func (p *pass) patchFleet(ctx context.Context, change func(*unstructured.Unstructured)) error {
	stored, err := hub.Patch(ctx, p.fleetClient(), p.read, change)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	p.read = stored
	return nil
}

// ensureFinalizer holds a KnativeFleet with deletionPolicy Orphan until its children have no owner. done reports whether the pass
// continues.
func (p *pass) ensureFinalizer(ctx context.Context) (done bool, err error) {
	has := slices.Contains(p.fleet.Finalizers, api.FleetFinalizer)
	orphan := p.fleet.Spec.DeletionPolicy == fleetv1alpha1.DeletionPolicyOrphan
	switch {
	case p.fleet.DeletionTimestamp != nil && has:
		if orphan {
			err = p.orphanChildren(ctx)
		}
		if err == nil {
			err = p.setFinalizer(ctx, false)
		}
		return false, err
	case p.fleet.DeletionTimestamp == nil && orphan != has:
		return true, p.setFinalizer(ctx, orphan)
	}
	return true, nil
}

func (p *pass) setFinalizer(ctx context.Context, hold bool) error {
	return p.patchFleet(ctx, func(changed *unstructured.Unstructured) {
		finalizers := slices.DeleteFunc(slices.Clone(changed.GetFinalizers()), func(f string) bool { return f == api.FleetFinalizer })
		if hold {
			finalizers = append(finalizers, api.FleetFinalizer)
		}
		changed.SetFinalizers(finalizers)
	})
}

// orphanChildren removes the owner from all children. The list comes from the API server, because the cache may not have a child that
// the last pass created, and has children that lost the label of the KnativeFleet: Kubernetes deletes every child with the owner.
func (p *pass) orphanChildren(ctx context.Context) error {
	for _, component := range api.Components() {
		list, err := p.childClient(component).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("cannot list the %ss of KnativeFleet %q: %w", component.Kind(), client.ObjectKeyFromObject(p.fleet), err)
		}
		for i := range list.Items {
			if !metav1.IsControlledBy(&list.Items[i], p.fleet) {
				continue
			}
			if _, err := hub.Patch(ctx, p.childClient(component), &list.Items[i], p.orphanChild); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// orphanChild removes the owner and the label of the KnativeFleet from a child.
func (p *pass) orphanChild(child *unstructured.Unstructured) {
	child.SetOwnerReferences(slices.DeleteFunc(child.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == p.fleet.UID }))
	changed := maps.Clone(child.GetLabels())
	delete(changed, api.FleetLabel)
	child.SetLabels(changed)
}
