// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"fmt"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// sight is how the cluster of an add-on is seen.
type sight string

const (
	// gone means that there is no ManagedCluster, or that it leaves without an answer: nobody can remove anything.
	gone sight = "gone"
	// leaving means that the ManagedCluster is being deleted and answers.
	leaving sight = "leaving"
	// unavailable means that the cluster is out of sight, or that OCM still keeps Placements away from it.
	unavailable sight = "unavailable"
	// returned means that the cluster became Available a moment ago.
	returned sight = "returned"
	// inSight means that the cluster is Available.
	inSight sight = "inSight"
)

// strategy is how the add-on comes to clusters.
type strategy string

const (
	// undefined means that the ClusterManagementAddOn is missing or being deleted.
	undefined strategy = "undefined"
	// placements means that Placements decide.
	placements strategy = "placements"
	// manual means that each add-on is enabled and disabled by name.
	manual strategy = "manual"
)

// input is what is known of one ManagedClusterAddOn that is being deleted.
type input struct {
	cluster  string
	sight    sight
	strategy strategy
	// wanted tells that the cluster is selected, or that the resource exists which the add-on was made for; settled that
	// the deletion is old enough for that to be no memory of before.
	wanted, settled bool
	// revocable tells that no resource which is being deleted asks for the removal.
	revocable bool
	// forced tells that the installation is to be left behind.
	forced bool
	// answer is the administrator's: api.RemovalConfirm, api.RemovalCancel, or nothing.
	answer string
	// braked tells that the add-on is held as part of a mass removal.
	braked bool
	// doubted tells that, whatever the strategy is now, it may not have been deleted by name.
	doubted bool
}

// verdict is what becomes of an add-on.
type verdict string

const (
	// pass means that package foundation needs nothing from the guard.
	pass verdict = "pass"
	// allow means that the installation may be removed.
	allow verdict = "allow"
	// handOver means that the works go to a new add-on.
	handOver verdict = "handOver"
	// hold means that nothing happens.
	hold verdict = "hold"
	// count means that the brake decides, together with all others.
	count verdict = "count"
)

// decision is a verdict and, but for pass and count, the condition that tells it.
type decision struct {
	verdict         verdict
	reason, message string
	// counted tells that the brake allowed it.
	counted bool
	// byName tells that it is allowed because nothing is known but that somebody has deleted it.
	byName bool
}

// determine says what becomes of one add-on. The first that applies counts.
func determine(in *input) decision {
	cancelled := in.answer == api.RemovalCancel && in.revocable
	switch {
	case in.forced, in.sight == gone:
		return decision{verdict: pass}
	case in.sight == leaving:
		return allowed()
	case (in.wanted || cancelled && in.strategy == manual) && !in.settled:
		return settling("it may be wanted again")
	case in.wanted || cancelled && in.strategy == manual:
		return decision{verdict: handOver, reason: api.ReasonHandedOver, message: "the add-on is wanted on the cluster; what is installed stays and goes to a new ManagedClusterAddOn"}
	case cancelled:
		return decision{verdict: hold, reason: api.ReasonMassRemoval, message: fmt.Sprintf(
			"the removal is cancelled and nothing is removed from cluster %q; to go on with a new ManagedClusterAddOn, let a Placement select the cluster, or set installStrategy.type of the ClusterManagementAddOn to Manual",
			in.cluster)}
	case in.sight == unavailable && (!in.braked || in.answer == api.RemovalConfirm): // else the brake must not be forgotten
		return decision{verdict: hold, reason: api.ReasonClusterUnavailable, message: fmt.Sprintf(
			"cluster %q is out of sight and keeps what is installed until it is back; if it never comes back, annotate this ManagedClusterAddOn with %s: \"true\", or delete the ManagedCluster",
			in.cluster, api.ForceOrphanAnnotation)}
	case in.answer == api.RemovalConfirm:
		return allowed()
	case in.sight == returned && in.strategy == placements && !in.braked:
		return settling("the cluster came back a moment ago")
	case in.strategy != manual, in.doubted:
		return decision{verdict: count}
	}
	out := allowed()
	out.byName = true
	return out
}

func allowed() decision {
	return decision{verdict: allow, reason: api.ReasonRemovalAllowed, message: "the installation is being removed"}
}

func settling(why string) decision {
	return decision{verdict: hold, reason: api.ReasonPlacementSettling, message: "waiting a moment before anything is removed: " + why}
}

// massRemoval is the decision for what the brake holds. It names no numbers: those change while the condition stays.
func massRemoval(component api.Component) decision {
	return decision{verdict: hold, reason: api.ReasonMassRemoval, message: fmt.Sprintf(
		"more clusters are to lose the add-on within an hour than maxRemoval allows, so that it stays; correct the Placement if this is a mistake, or annotate ManagedClusterAddOns, or ClusterManagementAddOn %q for all, with %s: %s or %s",
		component, api.RemovalAnnotation, api.RemovalConfirm, api.RemovalCancel)}
}
