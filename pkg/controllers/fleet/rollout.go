// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// rolloutPlan says which clusters get the revision now.
type rolloutPlan struct {
	// update holds the names of the clusters that get the revision now.
	update sets.Set[string]
	// stopped reports whether more clusters failed than maxFailures permits.
	stopped bool
	// recheck is the time until the plan may change without an event; 0 means that only an event changes the plan.
	recheck time.Duration
}

// planRollout determines, with OCM's engine, the clusters that get the revision now, and sets the phase of the clusters that exceeded
// progressDeadline.
func planRollout(strategy clusterv1alpha1.RolloutStrategy, clusters []clusterState) (rolloutPlan, *problem) {
	in := make([]rollout.Cluster, 0, len(clusters))
	for i := range clusters {
		c := &clusters[i]
		in = append(in, rollout.Cluster{Name: c.name, Group: c.group, Phase: c.phase, Since: c.since})
	}
	plan, err := rollout.Determine(strategy, in)
	out := rolloutPlan{update: plan.Update, stopped: plan.Stopped, recheck: plan.Recheck}
	if err != nil {
		return out, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.rolloutStrategy cannot be used; correct the strategy: %v", err)}
	}
	for i := range clusters {
		if clusters[i].phase == phaseProgressing && plan.TimedOut.Has(clusters[i].name) {
			clusters[i].phase, clusters[i].reason = phaseTimedOut, fleetv1alpha1.ReasonTimedOut
		}
	}
	return out, nil
}
