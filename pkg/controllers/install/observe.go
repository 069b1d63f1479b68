// Copyright Contributors to the Open Cluster Management project

package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// observe gathers what is known of the resource's installation. wait is after how long that may be more without an event.
func (r *Reconciler) observe(ctx context.Context, s *scope) (in *status.Installation, wait time.Duration, err error) {
	in = &status.Installation{Target: findingOf(s.target), Held: s.held()}
	switch {
	case s.definition == nil:
		in.Fault = &render.Error{Reason: api.ReasonAddOnMissing, Message: fmt.Sprintf(
			"the hub has no ClusterManagementAddOn %q; install the chart of the add-on", r.Component)}
		return in, 0, nil
	case s.admissible() && s.owner.Ownership == target.Leaving:
		in.Fault = pending("an earlier installation on cluster %q is being removed; this one follows", s.ref.Name)
		return in, 0, nil
	case s.admissible() && !in.Held:
		in.Fault = pending("the add-on is being enabled on cluster %q", s.ref.Name)
		return in, 0, nil
	case !in.Held:
		return in, 0, nil
	}
	if finding, ok := occupied(s); ok {
		return &status.Installation{Target: finding}, 0, nil
	}
	bundle, err := r.Bundles.Bundle(ctx, s.addOn)
	if errors.As(err, &in.Fault) {
		return in, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	in.Bundle, in.Observation = bundle, work.Observe(bundle, s.foundation, s.payloads)
	if by := r.Pauses.PausedBy(s.addOn); by != "" && (in.Observation.Waiting != "" || !r.isCurrent(ctx, s, bundle)) {
		in.Observation.Waiting = fmt.Sprintf("paused by %s: cluster %q keeps what it has instead of this spec; take it away to go on", by, s.ref.Name)
	}
	return in, in.Observation.Settle(r.Clock.Now()), nil
}

// occupied is what the add-on says of a cluster that somebody else has an installation on.
func occupied(s *scope) (status.Finding, bool) {
	c := apimeta.FindStatusCondition(s.addOn.Status.Conditions, api.TargetClusterResolved)
	if !s.target.Resolved() || !work.IsProbe(s.foundation) || c == nil ||
		c.Reason != api.ReasonTargetConflict && c.Reason != api.ReasonExistingInstallation {
		return status.Finding{}, false
	}
	return status.Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}, true
}

// isCurrent tells that a bundle is what the resource asks for now.
func (r *Reconciler) isCurrent(ctx context.Context, s *scope, bundle *render.Bundle) bool {
	current, err := r.Bundles.Latest(ctx, nameOf(s), s.addOn)
	return err == nil && current.Digest == bundle.Digest
}

// pending is the fault of a configuration that nobody has got yet.
func pending(format string, args ...any) *render.Error {
	return &render.Error{Reason: api.FaultConfigPending, Message: fmt.Sprintf(format, args...)}
}

func findingOf(result resolve.Result) status.Finding {
	if result.Resolved() {
		return status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved}
	}
	return status.Finding{Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message}
}
