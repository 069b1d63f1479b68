// Copyright Contributors to the Open Cluster Management project

package api

// Conditions of a KnativeServing or KnativeEventing, named as the Knative Operator names them. docs/conditions.md explains
// them and their reasons to users.
const (
	// Ready is True when all the others are. Otherwise its reason and message are those of the first one that is False, or
	// else Unknown.
	Ready = "Ready"
	// TargetClusterResolved tells whether the cluster is known, may be used and was seen. It is also on the
	// ManagedClusterAddOn.
	TargetClusterResolved = "TargetClusterResolved"
	// VersionMigrationEligible tells whether the cluster can go from the version that it has to the one that is asked for.
	// It is also on the ManagedClusterAddOn.
	VersionMigrationEligible = "VersionMigrationEligible"
	// DependenciesInstalled tells whether what Knative needs besides is on the cluster.
	DependenciesInstalled = "DependenciesInstalled"
	// InstallSucceeded tells whether every object was applied on the cluster.
	InstallSucceeded = "InstallSucceeded"
	// DeploymentsAvailable tells whether every workload runs what its spec says, and every Job has completed.
	DeploymentsAvailable = "DeploymentsAvailable"
)

// RemovalHeld is a condition of a ManagedClusterAddOn that is being deleted: True as long as nothing is removed from the
// cluster.
const RemovalHeld = "RemovalHeld"

// ValuesResolved is a condition of a ManagedClusterAddOn whose configuration uses values of its cluster: False when some are
// missing. It is not there as long as none ever was.
const ValuesResolved = "ValuesResolved"

// ConditionTypes lists the conditions of a KnativeServing or KnativeEventing: Ready, then those that it sums up, in the
// order in which they matter.
func ConditionTypes() []string {
	return []string{
		Ready, TargetClusterResolved, VersionMigrationEligible, DependenciesInstalled, InstallSucceeded, DeploymentsAvailable,
	}
}

// AddOnConditionTypes lists the conditions that a ManagedClusterAddOn has besides.
func AddOnConditionTypes() []string { return []string{ValuesResolved, RemovalHeld} }
