// Copyright Contributors to the Open Cluster Management project

package api

// Conditions of a KnativeServing or KnativeEventing, named as the Knative Operator names them. VersionMigrationEligible
// is the sixth. docs/conditions.md explains them and their reasons to users.
const (
	// Ready is True when all the others are.
	Ready = "Ready"
	// TargetClusterResolved tells whether the cluster is known, may be used and was seen. It is also on the
	// ManagedClusterAddOn.
	TargetClusterResolved = "TargetClusterResolved"
	// InstallSucceeded tells whether every object was applied on the cluster.
	InstallSucceeded = "InstallSucceeded"
	// DeploymentsAvailable tells whether every workload runs what its spec says, and every Job has completed.
	DeploymentsAvailable = "DeploymentsAvailable"
	// DependenciesInstalled tells whether what Knative needs besides is on the cluster.
	DependenciesInstalled = "DependenciesInstalled"
)

// Reasons of TargetClusterResolved that the Knative Operator has too, under the same names. The condition is False.
const (
	// ReasonClusterProfileNotFound means that the hub has no such ClusterProfile.
	ReasonClusterProfileNotFound = "ClusterProfileNotFound"
	// ReasonClusterProfileUnavailable means that the hub did not answer whether there is such a ClusterProfile.
	ReasonClusterProfileUnavailable = "ClusterProfileUnavailable"
	// ReasonClusterProfileNotReady means that the ClusterProfile does not say that its control plane is healthy.
	ReasonClusterProfileNotReady = "ClusterProfileNotReady"
	// ReasonMulticlusterDisabled means that the cluster needs Direct delivery, and the manager has no access providers.
	ReasonMulticlusterDisabled = "MulticlusterDisabled"
	// ReasonAccessProviderNotConfigured means that Direct delivery is on, and the manager is configured for none of the
	// access providers that the ClusterProfile offers.
	ReasonAccessProviderNotConfigured = "AccessProviderNotConfigured"
	// ReasonAccessProviderFailed means that the access provider gave no credential.
	ReasonAccessProviderFailed = "AccessProviderFailed"
	// ReasonRemoteClientCreationFailed means that no connection could be made with what the ClusterProfile and the
	// access provider gave.
	ReasonRemoteClientCreationFailed = "RemoteClientCreationFailed"
	// ReasonRemoteClusterStale means that a cluster that answered before does not any more.
	ReasonRemoteClusterStale = "RemoteClusterStale"
	// ReasonClusterProviderClosed means that the manager was stopping.
	ReasonClusterProviderClosed = "ClusterProviderClosed"
)

// Reasons of TargetClusterResolved that are ours.
const (
	// ReasonTargetResolved means that the cluster is known, may be used and was seen. The condition is True. The Knative
	// Operator gives no reason then; a ManagedClusterAddOn has to have one.
	ReasonTargetResolved = "TargetResolved"
	// ReasonFleetConfiguration means that the resource refers to no cluster and configures the add-on. The condition is
	// True; the message counts who uses it.
	ReasonFleetConfiguration = "FleetConfiguration"

	// ReasonManagedClusterNotFound means that the ClusterProfile is of OCM and names no ManagedCluster that exists.
	ReasonManagedClusterNotFound = "ManagedClusterNotFound"
	// ReasonManagedClusterNotAccepted means that the hub's administrator has not accepted the ManagedCluster.
	ReasonManagedClusterNotAccepted = "ManagedClusterNotAccepted"
	// ReasonManagedClusterUnavailable means that the ManagedCluster is out of sight: not joined, not available, or on
	// its way out. What is installed there stays.
	ReasonManagedClusterUnavailable = "ManagedClusterUnavailable"
	// ReasonReferenceNotPermitted means that nobody has allowed this: the namespace of the ClusterProfile is not open to
	// the namespace that refers to it, or no ManagedClusterSet bound to it contains the ManagedCluster.
	ReasonReferenceNotPermitted = "ReferenceNotPermitted"
	// ReasonTargetConflict means that the cluster has the component already, for another resource that came first or
	// because a user enabled the add-on there.
	ReasonTargetConflict = "TargetConflict"
	// ReasonPlacementManaged means that Placements decide which clusters have the add-on.
	ReasonPlacementManaged = "PlacementManaged"
	// ReasonExistingInstallation means that the cluster has a Knative that this add-on did not install.
	ReasonExistingInstallation = "ExistingInstallation"
)

// ClusterManagerOCM is spec.clusterManager.name of the ClusterProfiles that OCM publishes. OCM itself has the name among
// its hub's controllers.
const ClusterManagerOCM = "open-cluster-management"

const (
	// DeliveryAnnotation on a ClusterProfile that OCM publishes says how its cluster is reached.
	DeliveryAnnotation = Prefix + "delivery"
	// DeliveryDirect is the value of DeliveryAnnotation that asks for Direct delivery, through an access provider of the
	// ClusterProfile. Without it, OCM's work agent delivers.
	DeliveryDirect = "Direct"
)

// ConditionTypes lists the conditions of a KnativeServing or KnativeEventing: Ready, then those that it sums up.
func ConditionTypes() []string {
	return []string{
		Ready, TargetClusterResolved, VersionMigrationEligible, DependenciesInstalled, InstallSucceeded, DeploymentsAvailable,
	}
}

// Reasons lists every reason of this package by the condition that has it.
func Reasons() map[string][]string {
	return map[string][]string{
		TargetClusterResolved: {
			ReasonTargetResolved, ReasonFleetConfiguration,
			ReasonReferenceNotPermitted,
			ReasonClusterProfileNotFound, ReasonClusterProfileUnavailable,
			ReasonManagedClusterNotFound, ReasonManagedClusterNotAccepted, ReasonManagedClusterUnavailable,
			ReasonClusterProfileNotReady,
			ReasonMulticlusterDisabled, ReasonAccessProviderNotConfigured, ReasonAccessProviderFailed,
			ReasonRemoteClientCreationFailed, ReasonRemoteClusterStale, ReasonClusterProviderClosed,
			ReasonTargetConflict, ReasonPlacementManaged, ReasonExistingInstallation,
		},
		VersionMigrationEligible: {ReasonEligible, ReasonNotEligible},
	}
}
