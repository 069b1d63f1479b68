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

	// FoundationLabel on a ManifestWork names the component whose Namespace, CRDs and agent permissions it carries. It
	// is not OCM's own add-on label: the framework deletes works of that label that it did not make.
	FoundationLabel = Prefix + "foundation"
	// DigestAnnotation on a foundation is the digest of the bundle that it was made from.
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
)
