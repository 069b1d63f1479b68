// Copyright Contributors to the Open Cluster Management project

package api

// Reasons of TargetClusterResolved that the Knative Operator has too, under the same names. The condition is False.
const (
	// ReasonClusterProfileNotFound means that the hub has no such ClusterProfile.
	ReasonClusterProfileNotFound = "ClusterProfileNotFound"
	// ReasonClusterProfileUnavailable means that the hub serves ClusterProfiles, and that the manager could not read them yet.
	ReasonClusterProfileUnavailable = "ClusterProfileUnavailable"
	// ReasonClusterProfileNotReady means that the ClusterProfile does not report a healthy control plane.
	ReasonClusterProfileNotReady = "ClusterProfileNotReady"
	// ReasonMulticlusterDisabled means that the cluster needs Direct delivery, and the manager has no access providers.
	ReasonMulticlusterDisabled = "MulticlusterDisabled"
	// ReasonAccessProviderNotConfigured means that Direct delivery is on, and the manager is configured for none of the
	// access providers that the ClusterProfile offers.
	ReasonAccessProviderNotConfigured = "AccessProviderNotConfigured"
	// ReasonAccessProviderFailed means that the access provider gave no credential.
	ReasonAccessProviderFailed = "AccessProviderFailed"
	// ReasonRemoteClientCreationFailed means that the settings of the ClusterProfile and the access provider make no
	// connection.
	ReasonRemoteClientCreationFailed = "RemoteClientCreationFailed"
	// ReasonRemoteClusterStale means that a cluster that answered before does not any more.
	ReasonRemoteClusterStale = "RemoteClusterStale"
	// ReasonRemoteAnswerRefused means that a cluster answers with more than the manager accepts, or more slowly. The
	// Knative Operator does not have this reason.
	ReasonRemoteAnswerRefused = "RemoteAnswerRefused"
)

// Reasons of TargetClusterResolved that are ours.
const (
	// ReasonTargetResolved means that the cluster is known, may be used and is available. The condition is True. The
	// Knative Operator gives no reason then; a ManagedClusterAddOn must have a reason.
	ReasonTargetResolved = "TargetResolved"
	// ReasonFleetConfiguration means that the resource refers to no cluster and configures the add-on. The condition is
	// True; the message counts the add-ons that use the resource.
	ReasonFleetConfiguration = "FleetConfiguration"

	// ReasonClustersUnresolved means that TargetClusterResolved of ManagedClusterAddOns that the resource configures is False. The
	// message names the clusters.
	ReasonClustersUnresolved = "ClustersUnresolved"

	// ReasonManagedClusterNotFound means that the ClusterProfile is of OCM and names no ManagedCluster that exists.
	ReasonManagedClusterNotFound = "ManagedClusterNotFound"
	// ReasonManagedClusterNotAccepted means that the hub's administrator has not accepted the ManagedCluster.
	ReasonManagedClusterNotAccepted = "ManagedClusterNotAccepted"
	// ReasonManagedClusterUnavailable means that the ManagedCluster has not joined, is not available, or is being deleted.
	// The installation on the cluster stays.
	ReasonManagedClusterUnavailable = "ManagedClusterUnavailable"
	// ReasonReferenceNotPermitted means that a permission is missing: the namespace of the ClusterProfile is not open to
	// the referring namespace, no ManagedClusterSet bound to the namespace contains the ManagedCluster, or no inventory
	// permits the access provider, server, proxy or Secret of the ClusterProfile.
	ReasonReferenceNotPermitted = "ReferenceNotPermitted"
	// ReasonTargetConflict means that the cluster has the component already, for an earlier resource or because a user
	// enabled the add-on on the cluster.
	ReasonTargetConflict = "TargetConflict"
	// ReasonPlacementManaged means that Placements decide which clusters have the add-on.
	ReasonPlacementManaged = "PlacementManaged"
	// ReasonExistingInstallation means that the cluster has a Knative that this add-on did not install.
	ReasonExistingInstallation = "ExistingInstallation"
	// ReasonClusterReplaced means that the ClusterProfile leads to another cluster than the installation of the resource.
	// Neither cluster is written to. TargetClusterResolved is False.
	ReasonClusterReplaced = "ClusterReplaced"
	// ReasonClusterNotRecorded means that the resource has lost the record of the cluster of its installation, and that the
	// cluster of the ClusterProfile has no anchor of the resource. The cluster is not written to. TargetClusterResolved is
	// False.
	ReasonClusterNotRecorded = "ClusterNotRecorded"
	// ReasonLocalInstallsDisabled means that the resource is installed on the hub, and that no manager may write to the
	// hub.
	ReasonLocalInstallsDisabled = "LocalInstallsDisabled"
)

// ReasonConflict means that the Knative Operator on the hub manages the resource, so that this add-on ignores the resource.
// TargetClusterResolved is False.
const ReasonConflict = "Conflict"

// Reasons of Ready. A Ready that is not True has the reason of the first condition that is False, or else Unknown.
const (
	// ReasonReady means that every condition is True. The condition is True.
	ReasonReady = "Ready"
	// ReasonUnused means that the resource has no reference and that no add-on uses the resource, so that nothing is installed. The
	// condition is True.
	ReasonUnused = "Unused"
)

// Reasons of VersionMigrationEligible.
const (
	// ReasonEligible means that the version is installed, or can be reached in one step. The condition is True.
	ReasonEligible = "Eligible"
	// ReasonNotEligible means that the step is wider than one minor version, from the version that last ran completely or from
	// the version that was delivered since; the message lists the reachable versions.
	// Nothing is written until the configuration names a reachable version; InstallSucceeded has the reason too.
	ReasonNotEligible = "VersionMigrationNotEligible"
)

// Reasons of several conditions before anything is known of the cluster. The conditions are Unknown.
const (
	// ReasonTargetNotResolved means that TargetClusterResolved is not True and that the cluster has not reported on this
	// resource before.
	ReasonTargetNotResolved = "TargetNotResolved"
	// ReasonNotRendered means that the spec could not be turned into objects; InstallSucceeded says why.
	ReasonNotRendered = "NotRendered"
	// ReasonDelivering means that the objects were delivered and the cluster has not reported on the objects yet.
	ReasonDelivering = "Delivering"
	// ReasonRemoving means that the resource is being deleted and the installation removed; the message names the objects
	// that the removal waits for.
	ReasonRemoving = "Removing"
)

// Reasons of DependenciesInstalled.
const (
	// ReasonNothingMissing means that the cluster has every kind that is installed. The condition is True.
	ReasonNothingMissing = "NothingMissing"
	// ReasonKindMissing means that the cluster does not know the kind of an object, for example without Istio or
	// cert-manager. The condition is False.
	ReasonKindMissing = "KindMissing"
)

// Reasons of InstallSucceeded. That of a spec which cannot be rendered are in the next group.
const (
	// ReasonApplied means that every object was written on the cluster. The condition is True.
	ReasonApplied = "Applied"
	// ReasonRendered means that a fleet configuration could be turned into objects. The condition is True.
	ReasonRendered = "Rendered"
	// ReasonApplyFailed means that objects could not be written; the message names the objects with the cause. The
	// condition is False.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonAddOnMissing means that the hub has no ClusterManagementAddOn of the component. The condition is False.
	ReasonAddOnMissing = "AddOnMissing"
)

// Reasons of InstallSucceeded when no bundle can be written. The condition is False.
const (
	// ReasonConfigNotFound means that the object that configures the add-on does not exist.
	ReasonConfigNotFound = "ConfigNotFound"
	// ReasonConfigNotGranted means that the status of the ManagedClusterAddOn names a configuration that the hub did not give
	// to the add-on; the message names the configuration. The cluster keeps its installation. Also of TargetClusterResolved.
	ReasonConfigNotGranted = "ConfigNotGranted"
	// ReasonRevisionNotFound means that a cluster needs a spec that the configuration no longer has and that was not
	// recorded. The cluster keeps its installation.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonInvalidSpec means that the spec cannot be rendered; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonValueMissing means that the spec uses values of the cluster that the cluster does not have; the message names
	// the values. The cluster keeps its installation. Also of ValuesResolved.
	ReasonValueMissing = "ValueMissing"
	// ReasonUnknownVersion means that spec.version is not bundled; the message lists the bundled versions.
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
	// ReasonEscalationNotPermitted means that the resource asks for more than Knative and that its namespace is not
	// trusted; the message names the field or the annotation. docs/security.md lists what escalates.
	ReasonEscalationNotPermitted = "EscalationNotPermitted"
	// ReasonPatchFailed means that an entry of spec.patches does not apply.
	ReasonPatchFailed = "PatchFailed"
	// ReasonTooLarge means that the spec is larger than a bound of docs/rendering.md, or that the objects do not fit into a
	// ManifestWork; the message names the field or the object.
	ReasonTooLarge = "TooLarge"
	// ReasonRenderTimeout means that the rendering took too long and was cancelled. The manager renders the resource again
	// when the resource changes.
	ReasonRenderTimeout = "RenderTimeout"
	// ReasonReleasesMissing means that the program has no release manifests.
	ReasonReleasesMissing = "ReleasesMissing"
	// ReasonRenderFailed means that the Knative Operator's functions failed in a way that the spec does not explain.
	ReasonRenderFailed = "RenderFailed"
)

// FaultConfigPending is the fault of an add-on whose configuration OCM's add-on manager has not resolved yet. No condition
// has the reason: the conditions are Unknown with ReasonDelivering.
const FaultConfigPending = "ConfigPending"

// FaultRenderPending is the fault of a resource that waits for the renderer. No condition has the reason: the controllers
// try again a moment later and report nothing.
const FaultRenderPending = "RenderPending"

// Reasons of DeploymentsAvailable.
const (
	// ReasonWorkloadsAvailable means that every workload runs its spec and every Job has completed. The condition is True.
	ReasonWorkloadsAvailable = "WorkloadsAvailable"
	// ReasonWorkloadsNotReady means that workloads are not ready; the message names the workloads. The condition is False.
	ReasonWorkloadsNotReady = "WorkloadsNotReady"
)

// Reasons of ValuesResolved, besides ReasonValueMissing.
const (
	// ReasonValuesFound means that the cluster has every value that its configuration uses. The condition is True.
	ReasonValuesFound = "ValuesFound"
)

// Reasons of SettingsEffective.
const (
	// ReasonCheckSettings means that settings of the spec have no effect, or another effect than expected; the message names the
	// settings. The condition is False.
	ReasonCheckSettings = "CheckSettings"
)

// Reasons of RenderingCurrent.
const (
	// ReasonRenderingWaits means that the cluster keeps its rendering until its turn; the message names both renderings. The condition
	// is False.
	ReasonRenderingWaits = "RenderingWaits"
	// ReasonRenderingDelivering means that the cluster had its turn, and does not run the rendering yet. The condition is Unknown.
	ReasonRenderingDelivering = "RenderingDelivering"
	// ReasonRenderingRuns means that the cluster runs what this manager renders. The condition is True.
	ReasonRenderingRuns = "RenderingRuns"
)

// Reasons of Degraded.
const (
	// ReasonConfigurationRefused means that the configuration of the add-on yields no manifests; the message says why. The
	// cluster keeps its installation. The condition is True.
	ReasonConfigurationRefused = "ConfigurationRefused"
	// ReasonConfigurationUsable means that the configuration yields manifests, and did not before. The condition is False.
	ReasonConfigurationUsable = "ConfigurationUsable"
)

// Reasons of RemovalHeld.
const (
	// ReasonClusterUnavailable means that the cluster is unreachable, so that nothing can be removed, and nothing should:
	// the cluster may come back. The condition is True.
	ReasonClusterUnavailable = "ClusterUnavailable"
	// ReasonPlacementSettling means that more removals may follow, which count together, or that a deletion is too young. The
	// condition is True.
	ReasonPlacementSettling = "PlacementSettling"
	// ReasonPlacementUndecided means that the cluster is available again, and that a Placement may select the cluster and has
	// not done so yet. The condition is True.
	ReasonPlacementUndecided = "PlacementUndecided"
	// ReasonAwaitingReplacement means that Placements select other clusters instead, on which the add-on is not Available yet.
	// The condition is True.
	ReasonAwaitingReplacement = "AwaitingReplacement"
	// ReasonMassRemoval means that more clusters are to lose the add-on within an hour than the manager allows without
	// confirmation. The condition is True.
	ReasonMassRemoval = "MassRemoval"
	// ReasonUserResourcesUnknown means that CRDs and Namespace are to be removed once no user resources are left, which the
	// hub cannot determine. The condition is True.
	ReasonUserResourcesUnknown = "UserResourcesUnknown"
	// ReasonPaused means that an annotation keeps the cluster unchanged. The condition is True. Conditions of a resource whose
	// present spec waits for the end of the pause have the reason too, and are Unknown.
	ReasonPaused = "Paused"
	// ReasonRemovalAllowed means that the installation is being removed. The condition is False.
	ReasonRemovalAllowed = "RemovalAllowed"
	// ReasonHandedOver means that the cluster is to have the add-on again: the next ManagedClusterAddOn takes over the
	// installation. The condition is True.
	ReasonHandedOver = "HandedOver"
)

// Reasons of RolledOut.
const (
	// ReasonRolledOut means that every cluster has run the present spec. The condition is True.
	ReasonRolledOut = "RolledOut"
	// ReasonProgressing means that clusters have not run the present spec yet. The condition is False.
	ReasonProgressing = "Progressing"
	// ReasonClustersFailed means that no cluster is on its way to the present spec, and that clusters have failed. The condition is False.
	ReasonClustersFailed = "ClustersFailed"
)

// ClusterManagerOCM is spec.clusterManager.name of the ClusterProfiles that OCM publishes, a constant of OCM's hub
// controllers.
const ClusterManagerOCM = "open-cluster-management"

const (
	// DeliveryAnnotation on a ClusterProfile that OCM publishes selects the delivery mode of the cluster.
	DeliveryAnnotation = Prefix + "delivery"
	// DeliveryDirect is the value of DeliveryAnnotation that asks for Direct delivery, through an access provider of the
	// ClusterProfile. Without the annotation, OCM's work agent delivers.
	DeliveryDirect = string(ModeDirect)
)

// Reasons of Verified, besides ReasonDelivering.
const (
	// ReasonVerifying means that the cluster runs the installation, and that the Service of the verification is not Ready yet; the
	// message has the reason and the message of the Service. The condition is False.
	ReasonVerifying = "Verifying"
	// ReasonVerificationFailed means that the Service of the verification reports that it is not Ready, or that the cluster refused the
	// Service; the message has the cause. The verification goes on: the Service may become Ready later. The condition is False.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonVerificationSucceeded means that the Service of the verification was Ready with the present installation. The condition is
	// True.
	ReasonVerificationSucceeded = "VerificationSucceeded"
	// ReasonVerificationNotRequested means that a verification was requested before, and is not requested now. The condition is True.
	ReasonVerificationNotRequested = "VerificationNotRequested"
)

// SpecFaultReasons lists the reasons of InstallSucceeded and VersionMigrationEligible that only another spec can change.
func SpecFaultReasons() []string {
	return []string{
		ReasonInvalidSpec, ReasonUnknownVersion, ReasonNotEligible, ReasonIngressNotBundled, ReasonIngressNotEnabled, ReasonSourceNotBundled,
		ReasonSecurityGuardNotBundled, ReasonRemoteManifestRefused, ReasonKindNotAllowed, ReasonEscalationNotPermitted,
		ReasonPatchFailed, ReasonTooLarge, ReasonRenderTimeout, ReasonRenderFailed,
	}
}

// UnreachableReasons lists the reasons of TargetClusterResolved that end when the cluster answers again.
func UnreachableReasons() []string {
	return []string{
		ReasonManagedClusterUnavailable, ReasonClusterProfileNotReady, ReasonRemoteClusterStale, ReasonRemoteClientCreationFailed,
		ReasonAccessProviderFailed, ReasonRemoteAnswerRefused,
	}
}

// Reasons returns every reason of this package by condition type.
func Reasons() map[string][]string {
	unknown := []string{ReasonTargetNotResolved, ReasonNotRendered, ReasonDelivering, ReasonRemoving}
	return map[string][]string{
		Ready: {ReasonReady, ReasonUnused},
		TargetClusterResolved: {
			ReasonTargetResolved, ReasonFleetConfiguration, ReasonClustersUnresolved,
			ReasonConflict,
			ReasonReferenceNotPermitted,
			ReasonClusterProfileNotFound, ReasonClusterProfileUnavailable,
			ReasonManagedClusterNotFound, ReasonManagedClusterNotAccepted, ReasonManagedClusterUnavailable,
			ReasonClusterProfileNotReady,
			ReasonMulticlusterDisabled, ReasonAccessProviderNotConfigured, ReasonAccessProviderFailed,
			ReasonRemoteClientCreationFailed, ReasonRemoteClusterStale, ReasonRemoteAnswerRefused,
			ReasonPlacementManaged, ReasonTargetConflict, ReasonExistingInstallation, ReasonEscalationNotPermitted,
			ReasonConfigNotGranted, ReasonLocalInstallsDisabled, ReasonClusterReplaced,
			ReasonClusterNotRecorded,
		},
		VersionMigrationEligible: append([]string{ReasonEligible, ReasonNotEligible}, unknown...),
		DependenciesInstalled:    append([]string{ReasonNothingMissing, ReasonKindMissing, ReasonPaused}, unknown...),
		InstallSucceeded: append([]string{
			ReasonApplied, ReasonRendered, ReasonApplyFailed, ReasonAddOnMissing,
			ReasonConfigNotFound, ReasonConfigNotGranted, ReasonRevisionNotFound,
			ReasonInvalidSpec, ReasonValueMissing, ReasonUnknownVersion, ReasonIngressNotBundled, ReasonIngressNotEnabled, ReasonSourceNotBundled,
			ReasonSecurityGuardNotBundled, ReasonRemoteManifestRefused, ReasonRemoteManifestUnavailable, ReasonKindNotAllowed,
			ReasonEscalationNotPermitted,
			ReasonPatchFailed, ReasonTooLarge, ReasonRenderTimeout, ReasonReleasesMissing, ReasonRenderFailed,
			ReasonNotEligible,
		}, ReasonPaused, ReasonTargetNotResolved, ReasonDelivering, ReasonRemoving),
		DeploymentsAvailable: append([]string{ReasonWorkloadsAvailable, ReasonWorkloadsNotReady, ReasonPaused}, unknown...),
		Verified: {
			ReasonVerificationSucceeded, ReasonVerificationNotRequested, ReasonVerifying, ReasonVerificationFailed, ReasonDelivering,
		},
		AnnotationsPermitted: {ReasonEscalationNotPermitted, ReasonTargetNotResolved},
		SettingsEffective:    {ReasonCheckSettings},
		RenderingCurrent:     {ReasonRenderingWaits, ReasonRenderingDelivering, ReasonRenderingRuns},
		RolledOut:            {ReasonRolledOut, ReasonProgressing, ReasonClustersFailed, ReasonPaused, ReasonNotRendered},
		ValuesResolved:       {ReasonValuesFound, ReasonValueMissing},
		Degraded:             {ReasonConfigurationRefused, ReasonConfigurationUsable},
		RemovalHeld: {
			ReasonClusterUnavailable, ReasonPlacementSettling, ReasonPlacementUndecided, ReasonAwaitingReplacement, ReasonMassRemoval, ReasonHandedOver,
			ReasonUserResourcesUnknown, ReasonPaused, ReasonRemovalAllowed,
		},
	}
}
