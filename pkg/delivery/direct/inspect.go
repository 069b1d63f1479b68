// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"

	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// inspectBundle observes the bundle and writes nothing. The observation has no failures, because a paused pass retries no
// object.
func (i *Installation) inspectBundle(ctx context.Context, b *render.Bundle, options SyncOptions) (Outcome, error) {
	a, err := i.currentAnchor(ctx, b.Namespace)
	if unmanaged := (*inventory.UnmanagedError)(nil); err == nil && a == nil || options.Adopt && errors.As(err, &unmanaged) {
		err = i.checkClusterFree(ctx, b)
	}
	if err != nil && !(inventory.IsAdoptable(err) && options.Adopt) {
		return Outcome{}, err
	}
	if a == nil {
		return Outcome{Pending: true}, nil
	}
	seen, err := i.viewItems(ctx, a)
	if err != nil {
		return Outcome{}, err
	}
	i.anchor = a
	verification, err := i.planVerification(b, a, seen)
	if err != nil {
		return Outcome{}, err
	}
	p := i.planChanges(verification.bundle, a, seen)
	out := Outcome{Observation: i.observeBundle(b, a, seen), Verification: verification.state}
	out.Pending = !p.isEmpty() || len(p.postponed) > 0 || len(out.Observation.Failed) > 0 || a.Installed().Delivered != b.Version
	out.Observation.Failed = nil
	return out, nil
}
