// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const (
	// replacePatience is how long an installation stays at most because the one that takes its place is not Available.
	replacePatience = 10 * time.Minute
	// replaceLead is how much older than the deletion an add-on may be that takes the place: OCM makes and deletes one by one.
	replaceLead = time.Minute
)

// gatherArriving finds out since when clusters are selected that do not have the add-on Available yet.
func (r *Reconciler) gatherArriving(s *scope) error {
	for cluster := range s.selected {
		o, exists, err := r.AddOns.GetByKey(cluster + "/" + s.component.AddOnName())
		if err != nil {
			return fmt.Errorf("cannot get the add-on of cluster %q: %w", cluster, err)
		}
		if !exists {
			s.arriving = append(s.arriving, s.now)
			continue
		}
		a, err := addOnOf(o)
		if err != nil {
			return err
		}
		if a.DeletionTimestamp == nil && !apimeta.IsStatusConditionTrue(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable) {
			s.arriving = append(s.arriving, a.CreationTimestamp.Time)
		}
	}
	return nil
}

// replaced is for how long the add-on has to stay because others that were selected with its removal are not Available; 0 when
// it has not. Those that were selected before, and do not become Available, hold up nothing.
func (s *scope) replaced(p *pending) time.Duration {
	for _, since := range s.arriving {
		if !since.Before(p.DeletionTimestamp.Add(-replaceLead)) {
			return max(0, p.DeletionTimestamp.Add(replacePatience).Sub(s.now))
		}
	}
	return 0
}

func replacing() decision {
	return decision{verdict: hold, reason: api.ReasonAwaitingReplacement, message: fmt.Sprintf(
		"the add-on stays until it is Available on the clusters that Placements select instead, for %s at most; to remove it now, annotate this ManagedClusterAddOn with %s: %s",
		replacePatience, api.RemovalAnnotation, api.RemovalConfirm)}
}
