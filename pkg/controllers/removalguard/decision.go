// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"fmt"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// availability is the state of an add-on's cluster.
type availability string

const (
	// clusterGone means that the ManagedCluster does not exist, or did not respond when its deletion began. A removal is impossible.
	clusterGone availability = "gone"
	// clusterDetaching means that the ManagedCluster is being deleted and is Available.
	clusterDetaching availability = "detaching"
	// clusterUnavailable means that the cluster is not Available, or that OCM's taint still keeps Placements from selecting the
	// cluster.
	clusterUnavailable availability = "unavailable"
	// clusterAvailable means that the cluster is Available.
	clusterAvailable availability = "available"
)

// strategy is the install strategy of the ClusterManagementAddOn.
type strategy string

const (
	// strategyUndefined means that the ClusterManagementAddOn is missing or being deleted.
	strategyUndefined strategy = "undefined"
	// strategyPlacements means that Placements enable and disable the add-on.
	strategyPlacements strategy = "placements"
	// strategyManual means that a user enables and disables the add-on by name.
	strategyManual strategy = "manual"
)

// input holds the facts about one ManagedClusterAddOn that is being deleted.
type input struct {
	cluster      string
	availability availability
	strategy     strategy
	// desired reports whether a Placement selects the cluster, or the resource exists for which the add-on was created. settled
	// reports whether the deletion is older than cacheDelay, so that neither desired nor strategy is a fact of the time before the
	// deletion.
	desired, settled bool
	// undecided names a Placement, as namespace/name, that may select the cluster and has not selected the cluster since the
	// cluster returned; empty without such a Placement.
	undecided string
	// revocable reports whether the removal can be cancelled: no resource that is being deleted requests the removal.
	revocable bool
	// forced reports whether the user abandons the installation on the cluster.
	forced bool
	// confirmation is the administrator's: api.RemovalConfirm, api.RemovalCancel, or empty.
	confirmation string
	// overBudget reports whether the add-on is held as part of a mass removal.
	overBudget bool
	// originUncertain reports whether a Placement, or a deleted ClusterManagementAddOn, may have deleted the add-on, whatever the
	// strategy is now.
	originUncertain bool
}

// action is the next step for an add-on.
type action string

const (
	// actionNone means that package managedclusteraddon continues without a decision.
	actionNone action = "pass"
	// actionAllow means that the installation may be removed.
	actionAllow action = "allow"
	// actionHandOver means that the works go to a new add-on.
	actionHandOver action = "handOver"
	// actionHold means that the installation stays.
	actionHold action = "hold"
	// actionCount means that the removal budget decides, on all such add-ons together.
	actionCount action = "count"
	// actionWait means that a later pass decides. The add-on gets no condition: a held add-on has an uncertain origin.
	actionWait action = "wait"
)

// decision is an action and, for actionAllow, actionHandOver and actionHold, the reason and message of the condition.
type decision struct {
	action          action
	reason, message string
	// counted reports whether the removal budget allowed the removal.
	counted bool
	// deletedByName reports whether the removal is allowed, or waits to be allowed, only because a user deleted the add-on by name.
	deletedByName bool
}

// determineDecision returns the decision on one add-on. The first case that applies counts.
func determineDecision(in *input) decision {
	cancelled := in.confirmation == api.RemovalCancel && in.revocable
	switch {
	case in.forced, in.availability == clusterGone:
		return decision{action: actionNone}
	case in.availability == clusterDetaching:
		return allowedDecision("the ManagedCluster is being deleted")
	case (in.desired || cancelled && in.strategy == strategyManual) && !in.settled:
		return settlingDecision("a Placement or a resource may request the add-on again")
	case in.desired || cancelled && in.strategy == strategyManual:
		return decision{action: actionHandOver, reason: api.ReasonHandedOver, message: "the add-on is requested on the cluster again; the installation stays and passes to a new ManagedClusterAddOn"}
	case cancelled:
		return decision{action: actionHold, reason: api.ReasonMassRemoval, message: fmt.Sprintf(
			"the removal is cancelled and nothing is removed from cluster %q; to continue with a new ManagedClusterAddOn, let a Placement select the cluster, or set installStrategy.type of the ClusterManagementAddOn to Manual",
			in.cluster)}
	case in.availability == clusterUnavailable && (!in.overBudget || in.confirmation == api.RemovalConfirm): // a later pass must still find an add-on that is over budget
		return decision{action: actionHold, reason: api.ReasonClusterUnavailable, message: fmt.Sprintf(
			"cluster %q is not available and keeps its installation; if the cluster never returns, annotate this ManagedClusterAddOn with %s: \"true\", or delete the ManagedCluster",
			in.cluster, api.ForceOrphanAnnotation)}
	case in.confirmation == api.RemovalConfirm:
		return allowedDecision(fmt.Sprintf("annotation %s: %s confirms the removal", api.RemovalAnnotation, api.RemovalConfirm))
	case in.undecided != "" && !in.overBudget:
		return decision{action: actionHold, reason: api.ReasonPlacementUndecided, message: fmt.Sprintf(
			"cluster %q is available again and keeps its installation, because Placement %q may select the cluster and has not done so yet; check OCM's placement controller and the conditions of the Placement, or annotate this ManagedClusterAddOn with %s: %s to remove the installation",
			in.cluster, in.undecided, api.RemovalAnnotation, api.RemovalConfirm)}
	case in.strategy != strategyManual, in.originUncertain:
		return decision{action: actionCount}
	}
	out := allowedDecision("the ManagedClusterAddOn was deleted by name")
	if !in.settled {
		out = decision{action: actionWait} // the ClusterManagementAddOn may be gone, and its add-ons with it, before the cache knows
	}
	out.deletedByName = true
	return out
}

// allowedDecision returns the decision to remove an installation. An Event of the add-on names the cause.
func allowedDecision(cause string) decision {
	return decision{action: actionAllow, reason: api.ReasonRemovalAllowed, message: cause}
}

func settlingDecision(cause string) decision {
	return decision{action: actionHold, reason: api.ReasonPlacementSettling, message: "the removal waits for a moment: " + cause}
}

// massRemovalDecision is the decision on removals beyond the budget. The message holds no numbers: numbers change while the
// condition stays.
func massRemovalDecision(component api.Component) decision {
	return decision{action: actionHold, reason: api.ReasonMassRemoval, message: fmt.Sprintf(
		"the removals of the add-on within an hour exceed maxRemoval, so that the add-on stays; correct the Placement if the removals are a mistake, or annotate ManagedClusterAddOns, or ClusterManagementAddOn %q for all, with %s: %s or %s",
		component, api.RemovalAnnotation, api.RemovalConfirm, api.RemovalCancel)}
}
