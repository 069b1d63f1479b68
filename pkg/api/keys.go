// Copyright Contributors to the Open Cluster Management project

package api

// Prefix starts every label, annotation and finalizer that is ours.
const Prefix = "knative.open-cluster-management.io/"

const (
	// InstallNamespaceAnnotation on a KnativeServing or KnativeEventing names the install namespace on the spoke.
	InstallNamespaceAnnotation = Prefix + "install-namespace"

	// PinnedVersionAnnotation on a KnativeServing or KnativeEventing without spec.version is the exact version that it
	// resolved to when it was first seen: upgrading the add-on does not upgrade a fleet. spec.version "latest" follows the
	// add-on's newest instead.
	PinnedVersionAnnotation = Prefix + "pinned-version"

	// FoundationLabel on a ManifestWork names the component whose Namespace, CRDs and agent permissions it carries, or of
	// which it holds the rollout. addon-framework does not see works with this label: it would delete what it did not make.
	FoundationLabel = Prefix + "foundation"
	// DigestAnnotation on a foundation is the digest of the foundation of the bundle that it was made from: a change of what
	// only the payload has must not write it. As long as it has none, it only looks whether somebody else has the component
	// on the cluster.
	DigestAnnotation = Prefix + "digest"
	// VersionAnnotation on a foundation is the exact version of Knative that it belongs to: what the cluster has.
	VersionAnnotation = Prefix + "version"
	// FinishedJobsAnnotation on a foundation names the Jobs, as a sorted comma-separated list, that have finished on the
	// cluster and were removed there since; the payload no longer carries them.
	FinishedJobsAnnotation = Prefix + "finished-jobs"
	// RepairLabel on a ManifestWork changes to make the work agent apply everything at once. Its value is when that was
	// last asked for, in seconds since 1970.
	RepairLabel = Prefix + "repair"

	// FoundationFinalizer on a ManagedClusterAddOn holds it until the cluster is clean: what was installed is removed in
	// an order, the foundation last.
	FoundationFinalizer = Prefix + "foundation"

	// InstalledForAnnotation on a ManagedClusterAddOn names, as namespace/name, the KnativeServing or KnativeEventing
	// with spec.clusterProfileRef that it was made for. It is a record: what counts is spec.configs. On an anchor, which is
	// made where no work agent delivers, it is what counts.
	InstalledForAnnotation = Prefix + "installed-for"
	// ComponentLabel on everything that is written without the work agent names the component that it belongs to. Nothing
	// is deleted that does not have it.
	ComponentLabel = Prefix + "component"
	// HubAnnotation on the anchor of such an installation is the UID of the hub's namespace kube-system. With
	// InstalledForAnnotation it says whose the installation is. Where the work agent delivers, it is on the ClusterRole that
	// the agent has for the component.
	HubAnnotation = Prefix + "hub"
	// AdoptAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn takes over a Knative that is on the
	// cluster and not ours, when its value is "true".
	AdoptAnnotation = Prefix + "adopt"

	// InstallFinalizer on a KnativeServing or KnativeEventing holds it until what it installed is removed.
	InstallFinalizer = Prefix + "install"
	// DirectFinalizer on a KnativeServing or KnativeEventing holds it until what was installed without a work agent is
	// removed.
	DirectFinalizer = Prefix + "direct"
)

// Rollouts: what is kept of a configuration, how to go back, and how to stop.
const (
	// RevisionLabel on a ControllerRevision names the component of the KnativeServing or KnativeEventing that it is a
	// revision of; its owner is that resource.
	RevisionLabel = Prefix + "revision-of"
	// RevisionResourceLabel on a ControllerRevision is the name of that resource, for who lists them; a long name is cut.
	RevisionResourceLabel = Prefix + "resource"
	// SpecHashAnnotation on a ControllerRevision is OCM's hash of the spec that it holds.
	SpecHashAnnotation = Prefix + "spec-hash"

	// RollbackAnnotation on a KnativeServing or KnativeEventing asks for the spec of one of its revisions: a revision
	// number, a spec hash or the start of one, or RollbackLastKnownGood. It is taken away in the write that follows it.
	RollbackAnnotation = Prefix + "rollback-to"
	// RollbackLastKnownGood is the value of RollbackAnnotation that asks for the newest revision that a cluster completed.
	RollbackLastKnownGood = "last-known-good"

	// PausedAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn keeps the clusters concerned as they
	// are when its value is "true".
	PausedAnnotation = Prefix + "paused"
)

// What administrators ask for when an installation goes.
const (
	// ForceOrphanAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn that is being deleted lets it go
	// at once when its value is "true": what was installed stays on the cluster.
	ForceOrphanAnnotation = Prefix + "force-orphan"

	// DeletionPolicyAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn says what becomes of the CRDs
	// and the install namespace on the cluster, which otherwise stay.
	DeletionPolicyAnnotation = Prefix + "deletion-policy"
	// DeletionPolicyDelete is the value of DeletionPolicyAnnotation that removes them as soon as no user resources are left.
	DeletionPolicyDelete = "Delete"
	// DeletionPolicyDeleteUserResources is the value of DeletionPolicyAnnotation that removes them, and with them all
	// resources of users.
	DeletionPolicyDeleteUserResources = "DeleteUserResources"
)

// What remembers who asked for it.
const (
	// PassedOnAnnotation on a ManagedClusterAddOn lists, with commas between, which of its annotations were copied from the
	// resource that it is installed for. They go when the resource no longer has them.
	PassedOnAnnotation = Prefix + "passed-on"
	// KeptAnnotation on a foundation says that the work agent was told to keep CRDs and Namespace after it had been told to
	// own them. The foundation is deleted once the agent has applied that.
	KeptAnnotation = Prefix + "kept"
)

// What the guard against unwanted removals writes and reads.
const (
	// RemovalAnnotation on a ManagedClusterAddOn or, for all that are held, on a ClusterManagementAddOn is the
	// administrator's answer to held removals, RemovalConfirm or RemovalCancel. It is taken away once it was followed.
	RemovalAnnotation = Prefix + "removal"
	// RemovalConfirm is the value of RemovalAnnotation that lets held removals go on.
	RemovalConfirm = "Confirm"
	// RemovalCancel is the value of RemovalAnnotation that keeps what is installed and hands it to a new
	// ManagedClusterAddOn.
	RemovalCancel = "Cancel"

	// RemovalAllowedAnnotation on a ManagedClusterAddOn that is being deleted is when its removal was allowed, in seconds
	// since 1970. Nothing is removed from a cluster before.
	RemovalAllowedAnnotation = Prefix + "removal-allowed"
	// RemovalsAnnotation on a ClusterManagementAddOn holds the removals by Placements in the last hour, as
	// "minute:id.id,minute:id": minutes since 1970, and the starts of the UIDs of ManagedClusterAddOns.
	RemovalsAnnotation = Prefix + "removals"
	// HandoverAnnotation on a foundation without an owner holds the spec.configs, as JSON, of the ManagedClusterAddOn that
	// it belonged to, for the one that is to come.
	HandoverAnnotation = Prefix + "handover"
	// OrphanedAnnotation on a ManifestWork without an owner says that it was given up. It is deleted, and leaves everything
	// on the cluster, once the work agent has applied it again.
	OrphanedAnnotation = Prefix + "orphaned"
)

// ScoresName is the name of the AddOnPlacementScore in the namespace of a cluster that has one of our add-ons.
const ScoresName = "knative"

// ClusterClaims by which a cluster says what is installed on it. They are found in the status of its ManagedCluster and among
// the properties of its ClusterProfile.
const (
	// ServingVersionClaim is the exact version of Knative Serving.
	ServingVersionClaim = "serving.version.knative.dev"
	// EventingVersionClaim is the exact version of Knative Eventing.
	EventingVersionClaim = "eventing.version.knative.dev"
	// IngressClaim names the enabled ingresses of Serving as spec.ingress does, sorted, with an underscore between two.
	IngressClaim = "ingress.knative.dev"
)
