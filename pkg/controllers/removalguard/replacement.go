// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const (
	// replacementTimeout is the longest time that an installation waits for its replacement to become Available.
	replacementTimeout = 10 * time.Minute
	// replacementLead is the greatest age, at the deletion, of an add-on that counts as replacement: OCM creates and deletes one
	// add-on after the other.
	replacementLead = time.Minute
)

// gatherReplacements finds the selected clusters on which the add-on is not Available yet.
func (r *Reconciler) gatherReplacements(s *scope) error {
	for cluster := range s.selected {
		o, exists, err := r.AddOns.GetByKey(cluster + "/" + s.component.AddOnName())
		if err != nil {
			return fmt.Errorf("cannot get the add-on of cluster %q: %w", cluster, err)
		}
		if !exists {
			s.replacements = append(s.replacements, s.now)
			continue
		}
		a, err := asAddOn(o)
		if err != nil {
			return err
		}
		if a.DeletionTimestamp == nil && !apimeta.IsStatusConditionTrue(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable) {
			s.replacements = append(s.replacements, a.CreationTimestamp.Time)
		}
	}
	return nil
}

// replacementWait returns how long the add-on stays because add-ons that were selected with its removal are not Available; 0 when
// the add-on need not stay. Add-ons that were selected earlier and never become Available delay no removal.
func (s *scope) replacementWait(p *pendingRemoval) time.Duration {
	for _, since := range s.replacements {
		if !since.Before(p.DeletionTimestamp.Add(-replacementLead)) {
			return max(0, p.DeletionTimestamp.Add(replacementTimeout).Sub(s.now))
		}
	}
	return 0
}

func replacementDecision() decision {
	return decision{action: actionHold, reason: api.ReasonAwaitingReplacement, message: fmt.Sprintf(
		"the add-on stays until the add-on is Available on the clusters that Placements select instead, for %s at most; to remove the add-on now, annotate this ManagedClusterAddOn with %s: %s",
		replacementTimeout, api.RemovalAnnotation, api.RemovalConfirm)}
}
