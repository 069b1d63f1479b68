// Copyright Contributors to the Open Cluster Management project

package api

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

// ReasonConflict means that the Knative Operator on the hub takes care of the resource, so that this add-on leaves it
// alone. TargetClusterResolved is False.
const ReasonConflict = "Conflict"

// Reasons of Ready; when it is not True it has the reason of the first condition that is False, or else Unknown.
const (
	// ReasonReady means that everything is as it should be. The condition is True.
	ReasonReady = "Ready"
)

// Reasons of VersionMigrationEligible.
const (
	// ReasonEligible means that the version is installed, or can be reached in one step. The condition is True.
	ReasonEligible = "Eligible"
	// ReasonNotEligible means that the step is wider than one minor version; the message lists what can be reached.
	// Nothing is written until the configuration names one of these; InstallSucceeded has the reason too.
	ReasonNotEligible = "VersionMigrationNotEligible"
)

// Reasons that several conditions have before anything is known of the cluster. The conditions are Unknown.
const (
	// ReasonTargetNotResolved means that TargetClusterResolved is not True and nothing of this resource was seen before.
	ReasonTargetNotResolved = "TargetNotResolved"
	// ReasonNotRendered means that the spec could not be turned into objects; InstallSucceeded says why.
	ReasonNotRendered = "NotRendered"
	// ReasonDelivering means that the objects are on their way and the cluster has not reported on them yet.
	ReasonDelivering = "Delivering"
	// ReasonRemoving means that the resource is being deleted and its installation removed; the message says what is
	// waited for.
	ReasonRemoving = "Removing"
)

// Reasons of DependenciesInstalled.
const (
	// ReasonNothingMissing means that the cluster has every kind that is installed. The condition is True.
	ReasonNothingMissing = "NothingMissing"
	// ReasonKindMissing means that the cluster does not know the kind of an object, as when Istio or cert-manager is not
	// there. The condition is False.
	ReasonKindMissing = "KindMissing"
)

// Reasons of InstallSucceeded. That of a spec which cannot be rendered are in the next group.
const (
	// ReasonApplied means that every object was written on the cluster. The condition is True.
	ReasonApplied = "Applied"
	// ReasonRendered means that a fleet configuration could be turned into objects. The condition is True.
	ReasonRendered = "Rendered"
	// ReasonApplyFailed means that some objects could not be written; the message names them with the cause. The
	// condition is False.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonAddOnMissing means that the hub has no ClusterManagementAddOn of the component. The condition is False.
	ReasonAddOnMissing = "AddOnMissing"
)

// Reasons of InstallSucceeded when there is nothing to write. The condition is False.
const (
	// ReasonConfigNotFound means that the object that configures the add-on does not exist.
	ReasonConfigNotFound = "ConfigNotFound"
	// ReasonRevisionNotFound means that a cluster is to have a spec that the configuration no longer has and that was not
	// recorded. The cluster keeps what it has.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonInvalidSpec means that the spec cannot be rendered as it stands; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonValueMissing means that the spec uses values of its cluster that the cluster does not have; the message names
	// them. The cluster keeps what it has. Also of ValuesResolved.
	ReasonValueMissing = "ValueMissing"
	// ReasonUnknownVersion means that spec.version is not bundled; the message lists what is.
	ReasonUnknownVersion = "UnknownVersion"
	// ReasonIngressNotBundled means that the archive has no such ingress for the version.
	ReasonIngressNotBundled = "IngressNotBundled"
	// ReasonIngressNotEnabled means that config-network names the class of an ingress that spec.ingress does not enable.
	ReasonIngressNotEnabled = "IngressNotEnabled"
	// ReasonSourceNotBundled means that the archive has no such eventing source for the version.
	ReasonSourceNotBundled = "SourceNotBundled"
	// ReasonSecurityGuardNotBundled means that the archive has no security guard for the version.
	ReasonSecurityGuardNotBundled = "SecurityGuardNotBundled"
	// ReasonRemoteManifestRefused means that a URL of spec.manifests or spec.additionalManifests is not allowed.
	ReasonRemoteManifestRefused = "RemoteManifestRefused"
	// ReasonRemoteManifestUnavailable means that an allowed URL could not be fetched; trying again later may help.
	ReasonRemoteManifestUnavailable = "RemoteManifestUnavailable"
	// ReasonKindNotAllowed means that an object is of a kind that the add-on may not deliver.
	ReasonKindNotAllowed = "KindNotAllowed"
	// ReasonPatchFailed means that an entry of spec.patches does not apply.
	ReasonPatchFailed = "PatchFailed"
	// ReasonTooLarge means that the objects do not fit into a ManifestWork.
	ReasonTooLarge = "TooLarge"
	// ReasonReleasesMissing means that the program has no release manifests.
	ReasonReleasesMissing = "ReleasesMissing"
	// ReasonRenderFailed means that the Knative Operator's functions failed in a way that the spec does not explain.
	ReasonRenderFailed = "RenderFailed"
)

// FaultConfigPending is why there is nothing to deliver as long as OCM's add-on manager has not resolved the add-on's
// configuration. It is the reason of no condition: nothing is wrong, so that they are Unknown with ReasonDelivering.
const FaultConfigPending = "ConfigPending"

// Reasons of DeploymentsAvailable.
const (
	// ReasonWorkloadsAvailable means that everything runs what its spec says and every Job has completed. The condition is
	// True.
	ReasonWorkloadsAvailable = "WorkloadsAvailable"
	// ReasonWorkloadsNotReady means that some do not; the message names them. The condition is False.
	ReasonWorkloadsNotReady = "WorkloadsNotReady"
)

// Reasons of ValuesResolved, besides ReasonValueMissing.
const (
	// ReasonValuesFound means that the cluster has every value that its configuration uses. The condition is True.
	ReasonValuesFound = "ValuesFound"
)

// Reasons of RemovalHeld.
const (
	// ReasonClusterUnavailable means that the cluster is out of sight, so that nothing can be removed from it, and nothing
	// should: it may only be unreachable. The condition is True.
	ReasonClusterUnavailable = "ClusterUnavailable"
	// ReasonPlacementSettling means that the cluster came back into sight a moment ago and Placements may select it again.
	// The condition is True.
	ReasonPlacementSettling = "PlacementSettling"
	// ReasonAwaitingReplacement means that Placements select other clusters instead, on which the add-on is not Available yet.
	// The condition is True.
	ReasonAwaitingReplacement = "AwaitingReplacement"
	// ReasonMassRemoval means that more clusters are to lose the add-on within an hour than the manager allows without
	// confirmation. The condition is True.
	ReasonMassRemoval = "MassRemoval"
	// ReasonUserResourcesUnknown means that CRDs and Namespace are to go once no user resources are left, which nobody on the
	// hub can tell. The condition is True.
	ReasonUserResourcesUnknown = "UserResourcesUnknown"
	// ReasonPaused means that an annotation keeps the cluster as it is. The condition is True.
	ReasonPaused = "Paused"
	// ReasonRemovalAllowed means that the installation is being removed. The condition is False.
	ReasonRemovalAllowed = "RemovalAllowed"
	// ReasonHandedOver means that the add-on is wanted on the cluster again: what is installed goes to the
	// ManagedClusterAddOn that comes next. The condition is True.
	ReasonHandedOver = "HandedOver"
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

// Reasons lists every reason of this package by the condition that has it.
func Reasons() map[string][]string {
	unknown := []string{ReasonTargetNotResolved, ReasonNotRendered, ReasonDelivering, ReasonRemoving}
	return map[string][]string{
		Ready: {ReasonReady},
		TargetClusterResolved: {
			ReasonTargetResolved, ReasonFleetConfiguration,
			ReasonConflict,
			ReasonReferenceNotPermitted,
			ReasonClusterProfileNotFound, ReasonClusterProfileUnavailable,
			ReasonManagedClusterNotFound, ReasonManagedClusterNotAccepted, ReasonManagedClusterUnavailable,
			ReasonClusterProfileNotReady,
			ReasonMulticlusterDisabled, ReasonAccessProviderNotConfigured, ReasonAccessProviderFailed,
			ReasonRemoteClientCreationFailed, ReasonRemoteClusterStale, ReasonClusterProviderClosed,
			ReasonPlacementManaged, ReasonTargetConflict, ReasonExistingInstallation,
		},
		VersionMigrationEligible: append([]string{ReasonEligible, ReasonNotEligible}, unknown...),
		DependenciesInstalled:    append([]string{ReasonNothingMissing, ReasonKindMissing}, unknown...),
		InstallSucceeded: append([]string{
			ReasonApplied, ReasonRendered, ReasonApplyFailed, ReasonAddOnMissing,
			ReasonConfigNotFound, ReasonRevisionNotFound,
			ReasonInvalidSpec, ReasonValueMissing, ReasonUnknownVersion, ReasonIngressNotBundled, ReasonIngressNotEnabled, ReasonSourceNotBundled,
			ReasonSecurityGuardNotBundled, ReasonRemoteManifestRefused, ReasonRemoteManifestUnavailable, ReasonKindNotAllowed,
			ReasonPatchFailed, ReasonTooLarge, ReasonReleasesMissing, ReasonRenderFailed,
			ReasonNotEligible,
		}, ReasonTargetNotResolved, ReasonDelivering, ReasonRemoving),
		DeploymentsAvailable: append([]string{ReasonWorkloadsAvailable, ReasonWorkloadsNotReady}, unknown...),
		ValuesResolved:       {ReasonValuesFound, ReasonValueMissing},
		RemovalHeld: {
			ReasonClusterUnavailable, ReasonPlacementSettling, ReasonAwaitingReplacement, ReasonMassRemoval, ReasonHandedOver,
			ReasonUserResourcesUnknown, ReasonPaused, ReasonRemovalAllowed,
		},
	}
}
