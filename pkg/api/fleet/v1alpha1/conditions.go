// Copyright Contributors to the Open Cluster Management project

package v1alpha1

// Conditions of a KnativeFleet.
const (
	// Ready is True when every selected cluster has the revision and is Ready.
	Ready = "Ready"
	// RolledOut is True when every selected cluster has the revision.
	RolledOut = "RolledOut"
	// TargetClusterResolved is False when selected clusters are unknown or unavailable, or belong to another owner.
	TargetClusterResolved = "TargetClusterResolved"
	// VersionMigrationEligible is False when a child reports the condition as False. The condition exists only with selected clusters.
	VersionMigrationEligible = "VersionMigrationEligible"
	// DependenciesInstalled is False when a child reports the condition as False. The condition exists only with selected clusters.
	DependenciesInstalled = "DependenciesInstalled"
	// RemovalHeld is True while children of clusters that are no longer selected stay.
	RemovalHeld = "RemovalHeld"
)

// Reasons of the conditions.
const (
	// ReasonReady means that every selected cluster has the revision and is Ready.
	ReasonReady = "Ready"
	// ReasonClustersNotReady means that selected clusters have the revision and are not Ready.
	ReasonClustersNotReady = "ClustersNotReady"

	// ReasonRolledOut means that every selected cluster has the revision.
	ReasonRolledOut = "RolledOut"
	// ReasonProgressing means that clusters get the revision, in the order of the rollout strategy.
	ReasonProgressing = "Progressing"
	// ReasonMaxFailuresExceeded means that more clusters failed than maxFailures permits, so that no further cluster gets the revision.
	ReasonMaxFailuresExceeded = "MaxFailuresExceeded"
	// ReasonClustersFailed means that the rollout went on without failed clusters, as many as maxFailures permits.
	ReasonClustersFailed = "ClustersFailed"
	// ReasonClustersUnresolved means that the clusters without the revision are unresolved.
	ReasonClustersUnresolved = "ClustersUnresolved"
	// ReasonChildRefused means that the API server refused a child.
	ReasonChildRefused = "ChildRefused"
	// ReasonInvalidSpec means that a template, the selector or the rollout strategy cannot be used.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonPaused means that annotation paused keeps the children, and so the clusters, as they are.
	ReasonPaused = "Paused"
	// ReasonNothingSelected means that no cluster is selected.
	ReasonNothingSelected = "NothingSelected"

	// ReasonTargetsResolved means that every selected cluster is known and available.
	ReasonTargetsResolved = "TargetsResolved"
	// ReasonPlacementNotFound means that the Placement does not exist.
	ReasonPlacementNotFound = "PlacementNotFound"
	// ReasonKindNotServed means that the hub does not serve ClusterProfiles, or no PlacementDecisions of SIG Multicluster.
	ReasonKindNotServed = "KindNotServed"
	// ReasonKindUnavailable means that the hub serves such a kind, and that the manager could not list the kind yet.
	ReasonKindUnavailable = "KindUnavailable"

	// ReasonEligible means that no child reports VersionMigrationEligible as False.
	ReasonEligible = "Eligible"
	// ReasonNotEligible means that clusters cannot go to the version in one step.
	ReasonNotEligible = "VersionMigrationNotEligible"
	// ReasonNothingMissing means that no child reports DependenciesInstalled as False.
	ReasonNothingMissing = "NothingMissing"
	// ReasonKindMissing means that clusters do not know a kind that Knative needs.
	ReasonKindMissing = "KindMissing"

	// ReasonMassRemoval means that more removals wait than maxRemoval permits.
	ReasonMassRemoval = "MassRemoval"
	// ReasonSelectionEmpty means that the last cluster is no longer selected.
	ReasonSelectionEmpty = "SelectionEmpty"
	// ReasonClusterUnavailable means that clusters which are no longer selected are unknown or unavailable.
	ReasonClusterUnavailable = "ClusterUnavailable"
	// ReasonPlacementUndecided means that the Placement may select clusters again which may have been unreachable when the Placement no longer
	// selected the clusters.
	ReasonPlacementUndecided = "PlacementUndecided"
	// ReasonSettling means that more removals may follow, which count together.
	ReasonSettling = "Settling"
)

// Reasons of clusters in status.rollout.clusters, besides the reasons of condition Ready of a KnativeServing or KnativeEventing.
const (
	// ReasonClusterProfileNotFound means that the namespace has no such ClusterProfile.
	ReasonClusterProfileNotFound = "ClusterProfileNotFound"
	// ReasonOtherNamespace means that a decision names a ClusterProfile of another namespace.
	ReasonOtherNamespace = "OtherNamespace"
	// ReasonNotOwned means that a resource with the name of the child exists that the KnativeFleet does not own.
	ReasonNotOwned = "NotOwned"
	// ReasonWaiting means that the cluster has not got the revision yet.
	ReasonWaiting = "Waiting"
	// ReasonTimedOut means that the cluster was not Ready within progressDeadline.
	ReasonTimedOut = "TimedOut"
	// ReasonClusterProfileNotReady means that the ClusterProfile is not healthy.
	ReasonClusterProfileNotReady = "ClusterProfileNotReady"
	// ReasonChildNotReady means that the child has no condition Ready of its generation yet.
	ReasonChildNotReady = "ChildNotReady"
	// ReasonChildBeingDeleted means that the child is being deleted.
	ReasonChildBeingDeleted = "ChildBeingDeleted"
)

// Reasons returns every reason of the conditions, by condition type.
func Reasons() map[string][]string {
	return map[string][]string{
		Ready: {
			ReasonReady, ReasonClustersNotReady, ReasonProgressing, ReasonMaxFailuresExceeded, ReasonClustersFailed, ReasonClustersUnresolved,
			ReasonChildRefused, ReasonPaused, ReasonInvalidSpec, ReasonNothingSelected, ReasonPlacementNotFound, ReasonKindNotServed,
			ReasonKindUnavailable,
		},
		RolledOut: {
			ReasonRolledOut, ReasonProgressing, ReasonMaxFailuresExceeded, ReasonClustersFailed, ReasonClustersUnresolved, ReasonChildRefused,
			ReasonPaused, ReasonInvalidSpec, ReasonNothingSelected, ReasonPlacementNotFound, ReasonKindNotServed,
			ReasonKindUnavailable,
		},
		TargetClusterResolved: {
			ReasonTargetsResolved, ReasonClustersUnresolved, ReasonNothingSelected, ReasonInvalidSpec, ReasonPlacementNotFound, ReasonKindNotServed,
			ReasonKindUnavailable,
		},
		VersionMigrationEligible: {ReasonEligible, ReasonNotEligible},
		DependenciesInstalled:    {ReasonNothingMissing, ReasonKindMissing},
		RemovalHeld:              {ReasonMassRemoval, ReasonSelectionEmpty, ReasonClusterUnavailable, ReasonPlacementUndecided, ReasonSettling, ReasonPaused},
	}
}
