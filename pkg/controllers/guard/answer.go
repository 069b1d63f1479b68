// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// answer passes the administrator's answer on the ClusterManagementAddOn on to every add-on that is held as part of a
// mass removal, and then takes it away: it must not answer the next one too.
func (r *Reconciler) answer(ctx context.Context, s *scope) error {
	if s.definition == nil {
		return nil
	}
	given, ok := s.definition.Annotations[api.RemovalAnnotation]
	if !ok {
		delete(r.warned, s.component)
		return nil
	}
	if given != api.RemovalConfirm && given != api.RemovalCancel {
		r.warn(s, given)
		return nil
	}
	var answered []*pending
	var errs []error
	for _, p := range s.leaving {
		if !p.braked() {
			continue
		}
		answered = append(answered, p)
		if p.Annotations[api.RemovalAnnotation] == given {
			continue
		}
		errs = append(errs, r.patchAddOn(ctx, p, map[string]any{"annotations": map[string]any{api.RemovalAnnotation: given}}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := r.annotateDefinition(ctx, s, api.RemovalAnnotation, nil); err != nil {
		return err
	}
	r.tellAnswered(s, given, answered)
	s.leaving = nil // they have changed; their events bring us back
	return nil
}

func (r *Reconciler) tellAnswered(s *scope, given string, answered []*pending) {
	if len(answered) == 0 {
		r.Events.Eventf(s.definition, nil, corev1.EventTypeWarning, "NothingHeld", given,
			"Annotation %s: %s answers nothing, since no removal of %s is held by maxRemoval; it was taken away", api.RemovalAnnotation, given, s.component)
		return
	}
	if given == api.RemovalConfirm {
		r.Events.Eventf(s.definition, nil, corev1.EventTypeNormal, "RemovalConfirmed", given, "%s is removed from %s", s.component, clusters(answered))
		return
	}
	r.Events.Eventf(s.definition, nil, corev1.EventTypeNormal, "RemovalCancelled", given, "%s stays on %s", s.component, clusters(answered))
}

// warn tells once of an answer that is none.
func (r *Reconciler) warn(s *scope, given string) {
	if r.warned[s.component] == given && given != "" {
		return
	}
	if r.warned == nil {
		r.warned = map[api.Component]string{}
	}
	r.warned[s.component] = given
	r.Events.Eventf(s.definition, nil, corev1.EventTypeWarning, "UnknownAnswer", "Answer",
		"Annotation %s is %q and must be %s or %s", api.RemovalAnnotation, given, api.RemovalConfirm, api.RemovalCancel)
}
