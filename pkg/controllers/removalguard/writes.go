// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// applyDecisions carries out the decisions. A fault of one add-on does not stop the others, and without a record of the removals only the removals
// wait that the record lacks.
func (r *Reconciler) applyDecisions(ctx context.Context, s *scope) error {
	r.Held.setCounts(s)
	held := map[string][]*pendingRemoval{}
	var errs []error
	if err := r.recordRemovals(ctx, s); err != nil {
		errs = append(errs, err)
		s.deferUnrecordedRemovals()
	}
	for _, p := range s.pending {
		var err error
		switch p.decision.action {
		case actionAllow:
			err = r.allowRemoval(ctx, s, p)
		case actionHandOver:
			err = r.handOverWorks(ctx, s, p)
		case actionHold:
			var changed bool
			changed, err = r.setHeldCondition(ctx, p)
			if changed {
				held[p.decision.reason] = append(held[p.decision.reason], p)
			}
		case actionNone, actionCount, actionWait:
		}
		errs = append(errs, err)
	}
	for _, reason := range []string{api.ReasonClusterUnavailable, api.ReasonMassRemoval} {
		r.emitHeld(s, reason, held[reason])
	}
	return errors.Join(errs...)
}

// recordRemovals records the removals that the budget allowed, before the first removal begins, and corrects times that are ahead.
func (r *Reconciler) recordRemovals(ctx context.Context, s *scope) error {
	removals, isAhead := s.recentRemovals()
	before := len(removals)
	for _, p := range s.pending {
		if _, known := removals[removalID(p.UID)]; p.decision.counted && !known {
			removals[removalID(p.UID)] = s.now
		}
	}
	if len(removals) == before && !isAhead || s.definition == nil {
		return nil
	}
	return r.patchDefinition(ctx, s, func(d *addonv1beta1.ClusterManagementAddOn) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, api.RemovalsAnnotation, removals.String())
	})
}

// deferUnrecordedRemovals leaves the removals that the budget allowed in this pass to a later pass.
func (s *scope) deferUnrecordedRemovals() {
	recorded, _ := s.recentRemovals()
	for _, p := range s.pending {
		if _, known := recorded[removalID(p.UID)]; p.decision.counted && !known {
			p.decision.action = actionWait
		}
	}
}

// patchDefinition changes the ClusterManagementAddOn, unless the ClusterManagementAddOn changed after the cache read it.
func (r *Reconciler) patchDefinition(ctx context.Context, s *scope, change func(*addonv1beta1.ClusterManagementAddOn)) error {
	stored, err := hub.Patch(ctx, r.AddOnClient.AddonV1beta1().ClusterManagementAddOns(), s.definition, change)
	if err == nil {
		s.definition = stored
	}
	return err
}

// patchAddOn changes the add-on, unless the add-on changed after the cache read it.
func (r *Reconciler) patchAddOn(ctx context.Context, p *pendingRemoval, change func(*addonv1beta1.ManagedClusterAddOn)) error {
	_, err := hub.Patch(ctx, r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(p.Namespace), p.ManagedClusterAddOn, change)
	return client.IgnoreNotFound(err)
}

// allowRemoval lets package managedclusteraddon remove the installation. From then on package managedclusteraddon reports the progress.
func (r *Reconciler) allowRemoval(ctx context.Context, s *scope, p *pendingRemoval) error {
	err := r.patchAddOn(ctx, p, func(a *addonv1beta1.ManagedClusterAddOn) {
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, api.RemovalAllowedAnnotation, strconv.FormatInt(s.now.Unix(), 10))
	})
	if err == nil {
		r.Events.Eventf(p.ManagedClusterAddOn, nil, corev1.EventTypeNormal, api.ReasonRemovalAllowed, "Allow",
			"%s may be removed from cluster %q: %s", s.component, p.Namespace, p.decision.message)
	}
	return err
}

// setHeldCondition sets the condition of a held add-on and reports whether the reason changed.
func (r *Reconciler) setHeldCondition(ctx context.Context, p *pendingRemoval) (bool, error) {
	_, err := hub.Patch(ctx, r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(p.Namespace), p.ManagedClusterAddOn,
		func(a *addonv1beta1.ManagedClusterAddOn) {
			apimeta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
				Type: api.RemovalHeld, Status: metav1.ConditionTrue, Reason: p.decision.reason, Message: p.decision.message,
			})
		}, "status")
	return err == nil && heldReason(p.ManagedClusterAddOn) != p.decision.reason, err
}

// emitHeld emits one Event for all add-ons that are newly held for the same reason.
func (r *Reconciler) emitHeld(s *scope, reason string, held []*pendingRemoval) {
	if len(held) == 0 {
		return
	}
	r.Events.Eventf(s.eventObject(held), nil, corev1.EventTypeWarning, "RemovalHeld", "Hold",
		"%s: %s stays on %s: %s", reason, s.component, describeClusters(held), held[0].decision.message)
}

// eventObject returns the object of an Event about many add-ons: the ClusterManagementAddOn if it exists.
func (s *scope) eventObject(of []*pendingRemoval) runtime.Object {
	if s.definition != nil {
		return s.definition
	}
	return of[0].ManagedClusterAddOn
}

// namedClusters is the number of clusters that an Event names.
const namedClusters = 10

// describeClusters returns a text such as "3 clusters (a, b, c)".
func describeClusters(of []*pendingRemoval) string {
	var names []string
	for _, p := range of {
		names = append(names, p.Namespace)
	}
	if len(of) == 1 {
		return "cluster " + names[0]
	}
	return fmt.Sprintf("%d clusters (%s)", len(of), message.List(names, namedClusters))
}
