// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"slices"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// With strategy Manual an add-on is removed after cacheDelay when a user deletes the add-on by name. A ManagedClusterAddOn does not name
// the client that deleted the add-on. The origin of a deletion is uncertain in three cases:
//
//   - The add-on is held already: the strategy may have changed since.
//   - The add-on is older than the ClusterManagementAddOn and was deleted around its creation: Kubernetes deletes the add-ons of the
//     previous ClusterManagementAddOn, and continues for a while. OCM makes the new ClusterManagementAddOn the owner of add-ons that
//     are being deleted, too, so that the owner is no evidence.
//   - The add-on was deleted in one batch with such add-ons: OCM finishes a batch after a change of the strategy.

// mayPredateDefinition reports whether the add-on may have been deleted with a ClusterManagementAddOn that existed before the
// present one.
func (s *scope) mayPredateDefinition(p *pendingRemoval) bool {
	if s.definition == nil {
		return false
	}
	created := s.definition.CreationTimestamp
	return p.CreationTimestamp.Before(&created) && p.DeletionTimestamp.Time.Before(created.Add(window))
}

// includeBatch makes the removal budget decide also on add-ons that were deleted in one batch with its add-ons. Add-ons of clusters
// that were unavailable extend no batch: such an add-on waited for its cluster, also after a deletion by name.
func includeBatch(pending []*pendingRemoval) {
	batch := slices.SortedFunc(slices.Values(pending), func(a, b *pendingRemoval) int {
		return a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time)
	})
	for range 2 { // first towards later deletions, then towards earlier deletions
		var neighbour *pendingRemoval
		for _, p := range batch {
			if p.decision.deletedByName && neighbour != nil && p.DeletionTimestamp.Sub(neighbour.DeletionTimestamp.Time).Abs() <= batchDelay {
				p.decision = decision{action: actionCount}
			}
			if p.decision.action == actionCount && heldReason(p.ManagedClusterAddOn) != api.ReasonClusterUnavailable {
				neighbour = p
			}
		}
		slices.Reverse(batch)
	}
}
