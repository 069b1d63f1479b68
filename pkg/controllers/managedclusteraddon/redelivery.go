// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A configuration that yields no bundle changes nothing on a cluster, and the cluster keeps the delivered configuration. When a user
// deletes the payload on the hub in the meantime, addon-framework cannot write the payload again: the framework would mark the payload with
// the configuration that OCM wants, and OCM would take the cluster for complete. Therefore this controller writes the payload, with the mark
// of the delivered configuration. docs/design/0004-revisions.md has the rules.

// redeliverPayload writes the payload of the delivered configuration when the hub lacks the payload, or when the cluster refuses objects
// of the payload because Knative's webhooks do not respond. The gate stays as the gate is: OCM waits for the wanted configuration.
func (r *Reconciler) redeliverPayload(ctx context.Context, s *scope, in addon.DeliveryInput) (reconcile.Result, error) {
	configs := s.redeliveredConfigs(in.Fault)
	if configs == nil {
		return reconcile.Result{}, nil
	}
	delivered := addon.WithConfigs(s.addon, configs)
	if delivered == nil {
		return reconcile.Result{}, nil
	}
	bundle, fault, err := addon.DetermineBundle(ctx, r.Bundles, delivered)
	if err != nil || fault != nil {
		if addon.IsRendering(fault) {
			return reconcile.Result{RequeueAfter: pendingRetry}, nil
		}
		return reconcile.Result{}, err // the delivered configuration yields no bundle either
	}
	if bundle.Version != s.annotationOfFoundation(api.VersionAnnotation) || s.hasAppliedPayload(bundle) {
		return reconcile.Result{}, nil // the cluster has CRDs of another version, or has everything
	}
	in.Bundle, in.Fault, in.Configs, in.Ownership = bundle, nil, delivered.Status.ConfigReferences, r.determineOwnership(s, bundle)
	state := addon.DetermineDelivery(in).State
	if state != addon.Deliverable && state != addon.AwaitingFoundation {
		return reconcile.Result{}, nil
	}
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.ensureFoundation(ctx, s, bundle); err != nil || state != addon.Deliverable {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.writePayload(ctx, s, bundle, configs)
}

// redeliveredConfigs returns the delivered configurations, which the payload names, or without a payload the configurations that the cluster
// runs by the record of the gate; nil without these, and while a payload is being deleted. A cluster that never ran a payload has nothing to
// keep.
func (s *scope) redeliveredConfigs(fault *render.Error) map[string]string {
	if fault.Reason == api.FaultConfigPending || s.gate == nil || s.annotationOfFoundation(api.RunningVersionAnnotation) == "" {
		return nil
	}
	if len(s.payloads) == 0 {
		return manifestwork.RunningConfigs(s.gate)
	}
	if slices.ContainsFunc(s.payloads, func(p *workv1.ManifestWork) bool { return p.DeletionTimestamp != nil }) {
		return nil
	}
	return manifestwork.Delivered(s.payloads)
}

// hasAppliedPayload reports whether the agent has applied the whole payload of the bundle, with webhooks that refuse requests. One of several
// works may be missing, and the annotation of the foundation goes in an earlier write than webhook configurations that ignore failures: the
// manifests of the works decide.
func (s *scope) hasAppliedPayload(bundle *render.Bundle) bool {
	return !manifestwork.IsUnblocked(s.foundation) && !slices.ContainsFunc(s.payloads, lacksObjects) &&
		manifestwork.MatchBundle(s.payloads, bundle, s.foundation)
}

// lacksObjects reports whether the agent has not applied every object of the payload.
func lacksObjects(payload *workv1.ManifestWork) bool {
	applied, _ := manifestwork.Applied(payload)
	return !applied
}

// writePayload writes the payload of the bundle as addon-framework does, with the mark of the configurations.
func (r *Reconciler) writePayload(ctx context.Context, s *scope, bundle *render.Bundle, configs map[string]string) error {
	if manifestwork.MatchBundle(s.payloads, bundle, s.foundation) {
		return nil
	}
	objects, err := manifestwork.NextPayload(s.payloads, bundle, s.foundation)
	if err != nil {
		return err
	}
	works, err := addon.PayloadWorks(objects, s.addon, configs, s.payloads)
	if err != nil {
		return err
	}
	for _, work := range works {
		i := slices.IndexFunc(s.payloads, func(p *workv1.ManifestWork) bool { return p.Name == work.Name })
		switch {
		case i < 0:
			work.Spec.Executor = r.Executor
			err = r.createWork(ctx, work)
		case !manifestwork.SameManifests(s.payloads[i], work):
			changed := s.payloads[i].DeepCopy()
			changed.Spec.Workload = work.Spec.Workload
			err = r.updateWork(ctx, changed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
