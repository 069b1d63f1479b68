// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// observeWorks determines the state of the installation from the add-on, the works and the bundle.
func (m *ManifestWork) observeWorks(ctx context.Context, s *scope) (Outcome, error) {
	in := &status.Installation{Target: findingOfResolution(s.resolution), Owned: s.ownsAddOn()}
	fault, missing := m.missingAddOn(s)
	if missing || !in.Owned {
		in.Fault = fault
		return observeKept(s, in)
	}
	if finding, refused := refusalOfAddOn(s); refused { // an existing installation keeps its last conditions
		return Outcome{Installation: &status.Installation{Target: finding, Owned: !manifestwork.IsProbe(s.foundation)}}, nil
	}
	desired := revision.Desired(s.addOn)
	if desired != nil {
		reconciler.Describe(ctx, reconciler.Subject{Revision: desired.SpecHash})
	}
	assigned, err := m.isAssigned(s, desired)
	if err != nil {
		return Outcome{}, err
	}
	if !assigned { // a report on the former spec would look like a report on the present spec
		in.Fault = configPendingFault("OCM's add-on manager did not assign the present spec to cluster %q yet", s.ref.Name)
		return observeKept(s, in)
	}
	bundle, err := m.Bundles.Bundle(ctx, s.addOn)
	if render.IsPending(err) {
		return Outcome{}, err
	}
	if errors.As(err, &in.Fault) {
		return observeKept(s, in)
	}
	if err != nil {
		return Outcome{}, err
	}
	in.Rendering = renderingFinding(s.addOn)
	if manifestwork.AwaitsTurn(bundle, s.foundation, s.payloads, agentdeploy.ConfigsToMap(s.addOn.Status.ConfigReferences)) {
		in.Verification = s.observeVerification(bundle, manifestwork.DeliveredRendering(m.Component, s.payloads), manifestwork.RunningVersion(m.Component, s.payloads) != "")
		in.Bundle, in.Observation, err = manifestwork.DeliveredBundle(bundle, s.payloads)
		return Outcome{Installation: in, RequeueAfter: in.Observation.Settle(m.Clock.Now())}, err
	}
	in.Bundle, in.Observation = bundle, manifestwork.Observe(bundle, s.foundation, s.payloads)
	in.Verification = s.observeVerification(bundle, bundle.RenderingName(), runsBundle(in))
	if pausedBy := m.Pauses.PausedBy(s.addOn); pausedBy != "" {
		latest, err := m.isLatest(ctx, s, bundle)
		if err != nil {
			return Outcome{}, err
		}
		if !latest || in.Observation.Waiting != "" {
			in.Observation.Waiting, in.Observation.Paused = pausedMessage(pausedBy, fmt.Sprintf("cluster %q", s.ref.Name)), true
		}
	}
	return Outcome{Installation: in, RequeueAfter: in.Observation.Settle(m.Clock.Now())}, nil
}

// observeVerification returns the facts about the requested verification of a rendering; nil without a request.
func (s *scope) observeVerification(bundle *render.Bundle, rendering string, runs bool) *delivery.Verification {
	if bundle.Verification == nil {
		return nil
	}
	return manifestwork.ObserveVerification(s.gate, s.verification, rendering, runs)
}

// renderingFinding returns condition RenderingCurrent of the add-on; nil when the add-on never waited for a rendering.
func renderingFinding(addOn *addonv1beta1.ManagedClusterAddOn) *status.Finding {
	c := apimeta.FindStatusCondition(addOn.Status.Conditions, api.RenderingCurrent)
	if c == nil {
		return nil
	}
	return &status.Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// observeKept adds the state of the installation that the cluster keeps although the spec cannot be delivered.
func observeKept(s *scope, in *status.Installation) (Outcome, error) {
	if !in.Owned || in.Fault == nil {
		return Outcome{Installation: in}, nil
	}
	var err error
	in.Kept, err = manifestwork.ObserveKept(s.payloads)
	return Outcome{Installation: in}, err
}

// missingAddOn returns the fault of an installation that has no add-on yet. The result is false when the resource owns the
// add-on, or may not have one.
func (m *ManifestWork) missingAddOn(s *scope) (fault *render.Error, missing bool) {
	switch {
	case s.definition == nil:
		return &render.Error{Reason: api.ReasonAddOnMissing, Message: fmt.Sprintf(
			"the hub has no ClusterManagementAddOn %q; install the chart of the add-on", m.Component)}, true
	case s.isDeliverable() && s.owner.Ownership == target.Leaving:
		return configPendingFault("an earlier installation on cluster %q is being removed, and the installation of this resource follows", s.ref.Name), true
	case s.isDeliverable() && !s.ownsAddOn():
		return configPendingFault("the add-on is being enabled on cluster %q", s.ref.Name), true
	}
	return nil, false
}

// refusalOfAddOn returns the finding of the add-on when another owner has an installation on the cluster, or when the resource
// may not use the namespace on the cluster.
func refusalOfAddOn(s *scope) (status.Finding, bool) {
	c := apimeta.FindStatusCondition(s.addOn.Status.Conditions, api.TargetClusterResolved)
	if !s.resolution.Resolved() || c == nil {
		return status.Finding{}, false
	}
	switch c.Reason {
	case api.ReasonEscalationNotPermitted:
	case api.ReasonTargetConflict, api.ReasonExistingInstallation:
		if !manifestwork.IsProbe(s.foundation) {
			return status.Finding{}, false
		}
	default:
		return status.Finding{}, false
	}
	return status.Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}, true
}

// isAssigned reports whether OCM's add-on manager has assigned the present spec to the add-on. A paused add-on keeps the spec that the
// cluster has, and an add-on without an assigned spec has a fault that says so.
func (m *ManifestWork) isAssigned(s *scope, desired *addonv1beta1.ConfigSpecHash) (bool, error) {
	if desired == nil || m.Pauses.PausedBy(s.addOn) != "" {
		return true, nil
	}
	hash, err := revision.Hash(s.Config)
	return hash == desired.SpecHash, err
}

// isLatest reports whether the bundle is the bundle of the current spec. The error means that the latter is being rendered.
func (m *ManifestWork) isLatest(ctx context.Context, s *scope, bundle *render.Bundle) (bool, error) {
	latest, err := m.Bundles.Latest(ctx, client.ObjectKeyFromObject(s.Config), s.addOn)
	if render.IsPending(err) {
		return false, err
	}
	return err == nil && latest.Digest == bundle.Digest, nil
}

// configPendingFault returns the fault of a configuration that no add-on has yet.
func configPendingFault(format string, args ...any) *render.Error {
	return &render.Error{Reason: api.FaultConfigPending, Message: fmt.Sprintf(format, args...)}
}
