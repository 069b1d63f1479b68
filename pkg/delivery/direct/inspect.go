// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// inspect tells what is seen of the bundle, and changes nothing. What was refused is not told: it is not tried either.
func (i *Installation) inspect(ctx context.Context, b *render.Bundle, options SyncOptions) (Outcome, error) {
	a, err := i.current(ctx, b.Namespace)
	if err == nil && a == nil {
		err = i.checkFree(ctx, b)
	}
	if err != nil && !(adoptable(err) && options.Adopt) {
		return Outcome{}, err
	}
	if a == nil {
		return Outcome{Pending: true}, nil
	}
	seen, err := i.look(ctx, a.inventory)
	if err != nil {
		return Outcome{}, err
	}
	i.anchor = a
	p := i.plan(b, a, seen)
	out := Outcome{Observation: i.observe(b, a, seen)}
	out.Pending = !p.empty() || len(p.postponed) > 0 || len(out.Observation.Failed) > 0 || a.version() != b.Version
	out.Observation.Failed = nil
	return out, nil
}
