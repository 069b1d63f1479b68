// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// applyConfirmation copies the administrator's confirmation from the ClusterManagementAddOn to every add-on that is held as part of
// a mass removal, and then removes the confirmation from the ClusterManagementAddOn: the confirmation must not apply to the next mass removal.
func (r *Reconciler) applyConfirmation(ctx context.Context, s *scope) error {
	if s.definition == nil {
		return nil
	}
	confirmation, ok := s.definition.Annotations[api.RemovalAnnotation]
	if !ok {
		delete(r.warned, s.component)
		return nil
	}
	if confirmation != api.RemovalConfirm && confirmation != api.RemovalCancel {
		r.warnUnknown(s, confirmation)
		return nil
	}
	var decided []*pendingRemoval
	var errs []error
	for _, p := range s.pending {
		if !p.isOverBudget() {
			continue
		}
		decided = append(decided, p)
		if p.Annotations[api.RemovalAnnotation] == confirmation {
			continue
		}
		errs = append(errs, r.patchAddOn(ctx, p, func(a *addonv1beta1.ManagedClusterAddOn) {
			metav1.SetMetaDataAnnotation(&a.ObjectMeta, api.RemovalAnnotation, confirmation)
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err := r.patchDefinition(ctx, s, func(d *addonv1beta1.ClusterManagementAddOn) { delete(d.Annotations, api.RemovalAnnotation) })
	if err != nil {
		return err
	}
	r.emitConfirmed(s, confirmation, decided)
	s.pending = nil // the patches changed these add-ons; their events start the next pass
	return nil
}

func (r *Reconciler) emitConfirmed(s *scope, confirmation string, decided []*pendingRemoval) {
	if len(decided) == 0 {
		r.Events.Eventf(s.definition, nil, corev1.EventTypeWarning, "NothingHeld", confirmation,
			"Annotation %s: %s had no effect and was removed, since maxRemoval holds no removal of %s", api.RemovalAnnotation, confirmation, s.component)
		return
	}
	if confirmation == api.RemovalConfirm {
		r.Events.Eventf(s.definition, nil, corev1.EventTypeNormal, "RemovalConfirmed", confirmation, "%s is removed from %s", s.component, describeClusters(decided))
		return
	}
	r.Events.Eventf(s.definition, nil, corev1.EventTypeNormal, "RemovalCancelled", confirmation, "%s stays on %s", s.component, describeClusters(decided))
}

// warnUnknown emits one Event for an invalid confirmation.
func (r *Reconciler) warnUnknown(s *scope, confirmation string) {
	if r.warned[s.component] == confirmation && confirmation != "" {
		return
	}
	if r.warned == nil {
		r.warned = map[api.Component]string{}
	}
	r.warned[s.component] = confirmation
	r.Events.Eventf(s.definition, nil, corev1.EventTypeWarning, "UnknownAnswer", "Answer",
		"Annotation %s is %q and must be %s or %s", api.RemovalAnnotation, confirmation, api.RemovalConfirm, api.RemovalCancel)
}
