// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	"open-cluster-management.io/sdk-go/pkg/patcher"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// act follows the decisions. One add-on that fails does not keep the others.
func (r *Reconciler) act(ctx context.Context, s *scope) error {
	r.Held.set(s)
	if err := r.record(ctx, s); err != nil {
		return err
	}
	held := map[string][]*pending{}
	var errs []error
	for _, p := range s.leaving {
		var err error
		switch p.decision.verdict {
		case allow:
			err = r.allow(ctx, s, p)
		case handOver:
			err = r.handOver(ctx, s, p)
		case hold:
			var told bool
			told, err = r.tell(ctx, p)
			if told {
				held[p.decision.reason] = append(held[p.decision.reason], p)
			}
		case pass, count:
		}
		errs = append(errs, err)
	}
	for _, reason := range []string{api.ReasonClusterUnavailable, api.ReasonMassRemoval} {
		r.tellHeld(s, reason, held[reason])
	}
	return errors.Join(errs...)
}

// record counts the removals that the brake has allowed, before any of them is.
func (r *Reconciler) record(ctx context.Context, s *scope) error {
	removals := s.ledger()
	before := len(removals)
	for _, p := range s.leaving {
		if _, known := removals[idOf(p.UID)]; p.decision.counted && !known {
			removals[idOf(p.UID)] = s.now
		}
	}
	if len(removals) == before || s.definition == nil {
		return nil
	}
	return r.annotateDefinition(ctx, s, api.RemovalsAnnotation, removals.String())
}

// annotateDefinition sets an annotation, or takes it away when value is nil.
func (r *Reconciler) annotateDefinition(ctx context.Context, s *scope, annotation string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{annotation: value}, "resourceVersion": s.definition.ResourceVersion, "uid": s.definition.UID,
	}})
	if err != nil {
		return fmt.Errorf("cannot encode an annotation of ClusterManagementAddOn %q: %w", s.component, err)
	}
	changed, err := r.AddOnClient.AddonV1beta1().ClusterManagementAddOns().Patch(ctx, s.definition.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot annotate ClusterManagementAddOn %q: %w", s.component, err)
	}
	s.definition = changed
	return nil
}

// patchAddOn merges a patch of the metadata into the add-on as it was read.
func (r *Reconciler) patchAddOn(ctx context.Context, p *pending, metadata map[string]any) error {
	metadata["resourceVersion"], metadata["uid"] = p.ResourceVersion, p.UID
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("cannot encode a patch of ManagedClusterAddOn \"%s/%s\": %w", p.Namespace, p.Name, err)
	}
	_, err = r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot patch ManagedClusterAddOn \"%s/%s\": %w", p.Namespace, p.Name, err)
	}
	return nil
}

// allow lets package foundation remove the installation; from here on it tells how far it is.
func (r *Reconciler) allow(ctx context.Context, s *scope, p *pending) error {
	return r.patchAddOn(ctx, p, map[string]any{"annotations": map[string]any{
		api.RemovalAllowedAnnotation: strconv.FormatInt(s.now.Unix(), 10),
	}})
}

// tell sets the condition of an add-on that is held. It returns whether the reason is a new one.
func (r *Reconciler) tell(ctx context.Context, p *pending) (bool, error) {
	changed := p.DeepCopy()
	if !apimeta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: api.RemovalHeld, Status: metav1.ConditionTrue, Reason: p.decision.reason, Message: p.decision.message,
	}) {
		return false, nil
	}
	patches := patcher.NewPatcher[*addonv1beta1.ManagedClusterAddOn, addonv1beta1.ManagedClusterAddOnSpec, addonv1beta1.ManagedClusterAddOnStatus](
		r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(p.Namespace))
	if _, err := patches.PatchStatus(ctx, changed, changed.Status, p.Status); err != nil {
		return false, fmt.Errorf("cannot set conditions of ManagedClusterAddOn \"%s/%s\": %w", p.Namespace, p.Name, err)
	}
	return heldFor(p.ManagedClusterAddOn) != p.decision.reason, nil
}

// tellHeld tells in one Event of all add-ons that came to be held for the same reason.
func (r *Reconciler) tellHeld(s *scope, reason string, held []*pending) {
	if len(held) == 0 {
		return
	}
	r.Events.Eventf(s.regarding(held), nil, corev1.EventTypeWarning, "RemovalHeld", "Hold",
		"%s: %s stays on %s: %s", reason, s.component, clusters(held), held[0].decision.message)
}

// regarding is the object of an Event on many add-ons: the ClusterManagementAddOn if there is one.
func (s *scope) regarding(of []*pending) runtime.Object {
	if s.definition != nil {
		return s.definition
	}
	return of[0].ManagedClusterAddOn
}

// namedClusters is how many clusters an Event names.
const namedClusters = 10

// clusters is "3 clusters (a, b, c)".
func clusters(of []*pending) string {
	var names []string
	for _, p := range of[:min(len(of), namedClusters)] {
		names = append(names, p.Namespace)
	}
	if len(of) > namedClusters {
		names = append(names, "...")
	}
	if len(of) == 1 {
		return "cluster " + names[0]
	}
	return fmt.Sprintf("%d clusters (%s)", len(of), strings.Join(names, ", "))
}
