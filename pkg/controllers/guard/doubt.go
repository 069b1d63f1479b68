// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"slices"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// With strategy Manual an add-on is removed at once when somebody deletes it by name. Nothing in a ManagedClusterAddOn tells
// who has deleted it. What makes that doubtful is
//
//   - that it is held already: the strategy may have been changed since;
//   - that it is older than the ClusterManagementAddOn, and was deleted when that was made: Kubernetes deletes the add-ons of the
//     ClusterManagementAddOn before, and goes on for a while. OCM makes the new one their owner also when they are being deleted, so
//     that the owner tells nothing;
//   - that it was deleted in one go with such add-ons: OCM finishes what it has begun when the strategy is changed.

// outlived tells that the add-on may have been deleted with a ClusterManagementAddOn that was there before the present one.
func (s *scope) outlived(p *pending) bool {
	if s.definition == nil {
		return false
	}
	made := s.definition.CreationTimestamp
	return p.CreationTimestamp.Before(&made) && p.DeletionTimestamp.Time.Before(made.Add(window))
}

// joinBatch has the brake decide also on add-ons that were deleted in one go with what it decides on. Add-ons of clusters that
// were out of sight join nobody: they have waited for the cluster, also when they were deleted by name.
func joinBatch(leaving []*pending) {
	batch := slices.SortedFunc(slices.Values(leaving), func(a, b *pending) int {
		return a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time)
	})
	for range 2 { // to those that were deleted later, and to those before
		var neighbour *pending
		for _, p := range batch {
			if p.decision.byName && neighbour != nil && p.DeletionTimestamp.Sub(neighbour.DeletionTimestamp.Time).Abs() <= batchPause {
				p.decision = decision{verdict: count}
			}
			if p.decision.verdict == count && heldFor(p.ManagedClusterAddOn) != api.ReasonClusterUnavailable {
				neighbour = p
			}
		}
		slices.Reverse(batch)
	}
}
