// Copyright Contributors to the Open Cluster Management project

package api

// VersionMigrationEligible is the condition, on a ManagedClusterAddOn, of whether the cluster can go from the version that
// it has to the one that its configuration asks for.
const VersionMigrationEligible = "VersionMigrationEligible"

// Reasons of VersionMigrationEligible.
const (
	// ReasonEligible means that the version is installed, or can be reached in one step. The condition is True.
	ReasonEligible = "Eligible"
	// ReasonNotEligible means that the step is wider than one minor version; the message lists what can be reached.
	// Nothing is written until the configuration names one of these.
	ReasonNotEligible = "VersionMigrationNotEligible"
)
