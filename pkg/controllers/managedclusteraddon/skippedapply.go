// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

// firstSkippedApplyInterval is how long the work agent gets to apply a payload that the agent has observed, before a request to apply.
// Each request doubles the interval, up to delivery.LongestRepairInterval: an agent that is away reads no request.
const firstSkippedApplyInterval = 30 * time.Second

// skippedApply is a generation of a payload that the agent has observed and not applied. The manager requests the apply when the
// interval since the first pass or since the last request is over.
type skippedApply struct {
	generation int64
	since      time.Time
	interval   time.Duration
}

// requestSkippedApplies makes the work agent apply the payloads that the agent skips, and returns the time until the next pass; 0
// without such a payload. An agent skips a payload that was Complete when the payload changed, until a label changes.
func (r *DriftReconciler) requestSkippedApplies(ctx context.Context, payloads []*workv1.ManifestWork) (time.Duration, error) {
	var next time.Duration
	for _, p := range payloads {
		id, now := p.Namespace+"/"+p.Name, r.Clock.Now()
		if !manifestwork.SkippedApply(p) {
			r.skippedApplies.Delete(id)
			continue
		}
		skipped := r.findSkippedApply(id, p.Generation, now)
		wait := skipped.since.Add(skipped.interval).Sub(now)
		if wait <= 0 {
			if err := requestApply(ctx, r.WorkClient, p, now); err != nil {
				return 0, fmt.Errorf("cannot label ManifestWork %q: %w", id, err)
			}
			log.FromContext(ctx).Info("asked the work agent to apply a payload that the agent has observed and not applied", "work", id)
			wait = min(2*skipped.interval, delivery.LongestRepairInterval)
			r.skippedApplies.Store(id, skippedApply{p.Generation, now, wait})
		}
		next = reconciler.Soonest(next, wait)
	}
	return next, nil
}

// findSkippedApply returns the record of a generation that the agent skips. The record of a generation that the manager sees for the
// first time begins now.
func (r *DriftReconciler) findSkippedApply(id string, generation int64, now time.Time) skippedApply {
	if stored, ok := r.skippedApplies.Load(id); ok {
		if s, ok := stored.(skippedApply); ok && s.generation == generation {
			return s
		}
	}
	first := skippedApply{generation, now, firstSkippedApplyInterval}
	r.skippedApplies.Store(id, first)
	return first
}
