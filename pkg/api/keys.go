// Copyright Contributors to the Open Cluster Management project

package api

// Prefix starts every label, annotation and finalizer that is ours.
const Prefix = "knative.open-cluster-management.io/"

const (
	// InstallNamespaceAnnotation on a KnativeServing or KnativeEventing names the install namespace on the spoke.
	InstallNamespaceAnnotation = Prefix + "install-namespace"

	// PinnedVersionAnnotation on a KnativeServing or KnativeEventing without spec.version is the exact version to which the
	// resource resolved first: upgrading the add-on does not upgrade a fleet. spec.version "latest" follows the add-on's
	// newest version instead.
	PinnedVersionAnnotation = Prefix + "pinned-version"

	// FoundationLabel on a ManifestWork names the component whose Namespace, CRDs and agent permissions, or whose rollout,
	// the work holds. addon-framework does not see works with this label: addon-framework would delete works of other
	// creators.
	FoundationLabel = Prefix + "foundation"
	// DigestAnnotation on a foundation is the digest of the foundation of the rendered bundle: a change of the payload
	// alone must not write the foundation. A foundation without the annotation only probes whether another installer has
	// the component on the cluster.
	DigestAnnotation = Prefix + "digest"
	// VersionAnnotation on a foundation, or on an anchor, is the exact version of Knative that the cluster has, or is being
	// changed to.
	VersionAnnotation = Prefix + "version"
	// RunningVersionAnnotation on a foundation, or on an anchor, is the exact version of Knative that last ran on the cluster
	// completely, with all Jobs of the version. The next version is at most one minor version away from both versions.
	RunningVersionAnnotation = Prefix + "running-version"
	// FinishedJobsAnnotation on a foundation names, as a sorted comma-separated list, the Jobs that finished on the cluster
	// and were removed since; the payload no longer carries these Jobs.
	FinishedJobsAnnotation = Prefix + "finished-jobs"
	// UnblockedAnnotation on a foundation means that the webhook configurations of the payload ignore failures until
	// Knative's webhooks run: the webhooks refused objects that the webhooks need to start.
	UnblockedAnnotation = Prefix + "unblocked"
	// RepairLabel on a ManifestWork changes to make the work agent apply every object at once. The value is the time of the
	// last request, in seconds since 1970.
	RepairLabel = Prefix + "repair"

	// FoundationFinalizer on a ManagedClusterAddOn holds the add-on until the cluster is clean: the installation is removed
	// in an order, the foundation last.
	FoundationFinalizer = Prefix + "foundation"

	// InstalledForAnnotation on a ManagedClusterAddOn names, as namespace/name, the KnativeServing or KnativeEventing with
	// spec.clusterProfileRef for which the add-on was created. On an add-on the annotation is a record only: spec.configs
	// decides. On an anchor, which Direct delivery creates, the annotation decides.
	InstalledForAnnotation = Prefix + "installed-for"
	// ComponentLabel on every object of Direct delivery names the component of the object. Objects without the label are
	// never deleted.
	ComponentLabel = Prefix + "component"
	// HubAnnotation on the anchor of Direct delivery is the UID of the hub's namespace kube-system, and identifies the
	// owner of the installation together with InstalledForAnnotation. With a work agent, the agent's ClusterRole for the
	// component has the annotation.
	HubAnnotation = Prefix + "hub"
	// CreatedByHubAnnotation on a Namespace or CRD that the work agent applies is the UID of the hub's namespace
	// kube-system where the cluster did not have the object before an add-on of that hub. An object without the annotation
	// existed before, or may have existed: no removal deletes the object.
	CreatedByHubAnnotation = Prefix + "created-by-hub"
	// InstalledOnAnnotation on a KnativeServing or KnativeEventing is the UID of namespace kube-system of the cluster that the
	// resource is installed on without a work agent. The annotation comes with DirectFinalizer, before the first write to the
	// cluster: a ClusterProfile or an address that leads to another cluster later is not taken for that cluster.
	InstalledOnAnnotation = Prefix + "installed-on"
	// AdoptAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn adopts the Knative of another installer
	// on the cluster, when the value is "true".
	AdoptAnnotation = Prefix + "adopt"

	// InstallFinalizer on a KnativeServing or KnativeEventing holds the resource until the installation is removed.
	InstallFinalizer = Prefix + "install"
	// DirectFinalizer on a KnativeServing or KnativeEventing holds the resource until the installation without a work agent
	// is removed.
	DirectFinalizer = Prefix + "direct"
)

// Rollouts: history, rollback and pause of a configuration.
const (
	// RevisionLabel on a ControllerRevision names the component of the owning KnativeServing or KnativeEventing, or the resource of the
	// owning AddOnDeploymentConfig.
	RevisionLabel = Prefix + "revision-of"
	// RevisionResourceLabel on a ControllerRevision is the name of the owning resource, for lists; a long name is cut.
	RevisionResourceLabel = Prefix + "resource"
	// SpecHashAnnotation on a ControllerRevision is OCM's hash of the recorded spec. On an anchor, the annotation is the hash of
	// the spec that was last delivered.
	SpecHashAnnotation = Prefix + "spec-hash"

	// RollbackAnnotation on a KnativeServing or KnativeEventing requests the spec of a revision: a revision number, a spec
	// hash or the start of a hash, or RollbackLastKnownGood. The write that rolls back removes the annotation.
	RollbackAnnotation = Prefix + "rollback-to"
	// RollbackLastKnownGood is the value of RollbackAnnotation that asks for the newest revision that a cluster completed, as
	// CompletedAnnotation or the status of the ClusterManagementAddOn says.
	RollbackLastKnownGood = "last-known-good"

	// PausedAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn keeps the clusters concerned unchanged
	// when the value is "true".
	PausedAnnotation = Prefix + "paused"
)

// Verifications: a Knative Service that has to become Ready before an installation counts as complete.
const (
	// VerificationAnnotation on a KnativeServing decides how an installation is verified: VerificationNone, VerificationService or
	// VerificationKeptService. Without the annotation, VerificationVariable decides, and then the manager's default.
	VerificationAnnotation = Prefix + "verification"
	// VerificationVariable is the name of the customized variable of an AddOnDeploymentConfig with the values of VerificationAnnotation.
	VerificationVariable = "knativeVerification"
	// VerificationNone delivers no Service: an installation is complete when its workloads run.
	VerificationNone = "None"
	// VerificationService delivers a Knative Service when the workloads run, and removes the Service when the Service was Ready.
	VerificationService = "Service"
	// VerificationKeptService is VerificationService without the removal: the Service stays with the installation.
	VerificationKeptService = "KeptService"
	// VerificationServiceName is the name of the Service of a verification, in the install namespace, and of the container of the Service.
	VerificationServiceName = "knative-verification"
	// VerifiesAnnotation on the revision template of the Service of a verification names the rendering that the Service verifies.
	// Another rendering therefore makes another Revision, which has to become ready.
	VerifiesAnnotation = Prefix + "verifies"
	// VerifiedRenderingAnnotation on a gate, or on an anchor, names the rendering that the cluster has and whose verification succeeded.
	VerifiedRenderingAnnotation = Prefix + "verified-rendering"
	// RunningConfigsAnnotation on a gate names the configurations that the cluster runs, with the hashes of OCM, in the form of OCM's
	// annotation config-spec-hash. The record stays when workloads fail, and OCM's annotation does not.
	RunningConfigsAnnotation = Prefix + "running-configs"
)

// Renderings: the same spec, rendered differently by another manager or from other release manifests.
const (
	// RenderingAnnotation on a ClusterManagementAddOn, KnativeFleet, KnativeServing, KnativeEventing or ManagedClusterAddOn decides
	// when the clusters concerned get a new rendering; see RenderingImmediate.
	RenderingAnnotation = Prefix + "rendering"
	// RenderingImmediate is the value of RenderingAnnotation that gives a new rendering to the clusters at once.
	RenderingImmediate = "Immediate"
	// RenderingTurnAnnotation on a foundation, or on a KnativeServing or KnativeEventing that is installed without a work agent, names
	// the rendering that the cluster may get. The manager writes the annotation when the cluster has its turn.
	RenderingTurnAnnotation = Prefix + "rendering-turn"
	// RenderingInputsAnnotation on a foundation, or on an anchor, is a hash of what the delivered bundle was rendered from besides the
	// spec: the version, the install namespace and the values of the cluster. A bundle of other inputs is no new rendering.
	RenderingInputsAnnotation = Prefix + "rendering-inputs"
	// DeliveredRenderingAnnotation in status.annotations of a KnativeServing or KnativeEventing that is installed without a work agent
	// names the rendering that the cluster last got completely. The hub has no other record of the objects of such a cluster. On an
	// anchor, the annotation names the rendering that was last delivered, completely or in part.
	DeliveredRenderingAnnotation = Prefix + "delivered-rendering"
)

// Children of a KnativeFleet.
const (
	// FleetLabel on a KnativeServing or KnativeEventing names the owning KnativeFleet. The owner reference decides, not the label.
	FleetLabel = Prefix + "fleet"
	// FleetRevisionAnnotation on a child is the revision of the KnativeFleet that the child has. In status.annotations of a child, the
	// annotation is the revision that the status describes.
	FleetRevisionAnnotation = Prefix + "fleet-revision"
	// FleetUpdatedAnnotation on a child is the time at which the KnativeFleet last wrote the child.
	FleetUpdatedAnnotation = Prefix + "fleet-updated"
	// FleetStoredSpecAnnotation on a child is the hash of the spec that the API server stored, where the API server stored another spec
	// than the KnativeFleet wrote.
	FleetStoredSpecAnnotation = Prefix + "fleet-stored-spec"
	// FleetLabelsAnnotation and FleetAnnotationsAnnotation on a child hold the keys of the labels and annotations that the template of the child's
	// revision sets, separated by commas: keys that leave the template leave the child.
	FleetLabelsAnnotation      = Prefix + "fleet-labels"
	FleetAnnotationsAnnotation = Prefix + "fleet-annotations"
	// FleetAdoptAnnotation on a KnativeServing or KnativeEventing without an owner names the KnativeFleet that may take over the resource.
	FleetAdoptAnnotation = Prefix + "fleet-adopt"
	// FleetPausedAnnotation on a child reports that the manager paused the child because the KnativeFleet is paused, and that the end of
	// the pause removes PausedAnnotation from the child.
	FleetPausedAnnotation = Prefix + "fleet-paused"
	// FleetFinalizer on a KnativeFleet with deletionPolicy Orphan holds the KnativeFleet until no child has the KnativeFleet as an owner.
	FleetFinalizer = Prefix + "fleet"
)

// Requests of administrators about the removal of an installation.
const (
	// ForceOrphanAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn that is being deleted releases the
	// object at once when the value is "true": the installation stays on the cluster.
	ForceOrphanAnnotation = Prefix + "force-orphan"

	// DeletionPolicyAnnotation on a KnativeServing, KnativeEventing or ManagedClusterAddOn decides whether the CRDs and the
	// install namespace on the cluster are removed; without the annotation both stay.
	DeletionPolicyAnnotation = Prefix + "deletion-policy"
	// DeletionPolicyDelete is the value of DeletionPolicyAnnotation that removes both as soon as no user resources are
	// left.
	DeletionPolicyDelete = "Delete"
	// DeletionPolicyDeleteUserResources is the value of DeletionPolicyAnnotation that removes both together with all user
	// resources.
	DeletionPolicyDeleteUserResources = "DeleteUserResources"
)

// Records of requests.
const (
	// PassedOnAnnotation on a ManagedClusterAddOn lists, with commas between, the annotations that were copied from the
	// resource of the add-on. A copy is removed when the resource no longer has the annotation.
	PassedOnAnnotation = Prefix + "passed-on"
	// KeptAnnotation on a foundation means that a work requests the work agent, which owned CRDs and Namespace, to keep both. The
	// foundation is deleted once the agent has applied the change.
	KeptAnnotation = Prefix + "kept"
)

// Annotations of the removal guard.
const (
	// RemovalAnnotation is the administrator's answer to held removals, RemovalConfirm or RemovalCancel: on a
	// ManagedClusterAddOn, or for all held removals on a ClusterManagementAddOn. The removal guard removes the annotation
	// after following the answer.
	RemovalAnnotation = Prefix + "removal"
	// RemovalConfirm is the value of RemovalAnnotation that permits the held removals.
	RemovalConfirm = "Confirm"
	// RemovalCancel is the value of RemovalAnnotation that keeps the installation and hands the installation to a new
	// ManagedClusterAddOn.
	RemovalCancel = "Cancel"

	// RemovalAllowedAnnotation on a ManagedClusterAddOn that is being deleted is the time at which the removal was allowed,
	// in seconds since 1970. Nothing is removed from a cluster before.
	RemovalAllowedAnnotation = Prefix + "removal-allowed"
	// RemovalsAnnotation on a ClusterManagementAddOn holds the removals by Placements in the last hour, as
	// "minute:id.id,minute:id": minutes since 1970, and the starts of the UIDs of ManagedClusterAddOns.
	RemovalsAnnotation = Prefix + "removals"
	// HandoverAnnotation on a foundation was written by older managers between two add-ons. The agent of the cluster may
	// write the annotation too, so that no program reads the value; the manager removes the annotation.
	HandoverAnnotation = Prefix + "handover"
	// StopBegunAnnotation on a payload is the time in seconds since 1970 at which the work agent had applied the stop of the workloads in a removal.
	StopBegunAnnotation = Prefix + "stop-begun"
	// OrphanedAnnotation on a ManifestWork without an owner means that the manager gave up the work. The work is deleted,
	// and leaves every object on the cluster, once the work agent has applied the work again.
	OrphanedAnnotation = Prefix + "orphaned"
)

// Records of the hub in places where no managed cluster may write: the metadata of ManagedClusterAddOns and
// ControllerRevisions.
const (
	// GrantedConfigsAnnotation on a ManagedClusterAddOn lists, as "resource.group/namespace/name" with commas between, the
	// configurations that the hub gave to the add-on. The status of the add-on selects among these and spec.configs.
	GrantedConfigsAnnotation = Prefix + "granted-configs"
	// ClusterUIDAnnotation on a ManagedClusterAddOn is the UID of the ManagedCluster that the installation is on.
	ClusterUIDAnnotation = Prefix + "cluster-uid"
	// CompletedAnnotation on a ControllerRevision of a KnativeServing or KnativeEventing names the first cluster that
	// completed the revision while the resource had that spec.
	CompletedAnnotation = Prefix + "completed-by"
)

// ScoresName is the name of the AddOnPlacementScore in the namespace of a cluster with an add-on of this project.
const ScoresName = "knative"

// ClusterClaims with which a cluster reports the installation, in the status of the ManagedCluster and among the properties
// of the ClusterProfile.
const (
	// ServingVersionClaim is the exact version of Knative Serving.
	ServingVersionClaim = "serving.version.knative.dev"
	// EventingVersionClaim is the exact version of Knative Eventing.
	EventingVersionClaim = "eventing.version.knative.dev"
	// IngressClaim names the enabled ingresses of Serving as spec.ingress does, sorted, with an underscore between two.
	IngressClaim = "ingress.knative.dev"
)

// Registrations of clusters by `knative-addon register`.
const (
	// RegisteredLabel with the value "true" is on every object that `knative-addon register` creates, on the hub and on the
	// registered cluster. Objects without the label are neither changed nor deleted by a registration.
	RegisteredLabel = Prefix + "registered"
	// RegisteredAsAnnotation on an object with RegisteredLabel is the namespace/name of the ClusterProfile of the registration. On
	// a registered cluster, HubAnnotation names the hub of the ClusterProfile.
	RegisteredAsAnnotation = Prefix + "registered-as"
	// RegisteredSecretAnnotation on a ClusterProfile with RegisteredLabel is the namespace/name of the Secret with the token.
	RegisteredSecretAnnotation = Prefix + "registered-secret"
)
