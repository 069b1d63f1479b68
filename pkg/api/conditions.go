// Copyright Contributors to the Open Cluster Management project

package api

// Conditions of a KnativeServing or KnativeEventing, with the names of the Knative Operator. docs/conditions.md explains
// conditions and reasons to users.
const (
	// Ready is True when all other conditions are True. Otherwise Ready has the reason and message of the first condition
	// that is False, or else Unknown.
	Ready = "Ready"
	// TargetClusterResolved reports whether the cluster is known, may be used and is available. The ManagedClusterAddOn has
	// the condition too.
	TargetClusterResolved = "TargetClusterResolved"
	// VersionMigrationEligible reports whether the cluster can go from the installed version to the requested version. The
	// ManagedClusterAddOn has the condition too.
	VersionMigrationEligible = "VersionMigrationEligible"
	// DependenciesInstalled reports whether the cluster has every kind that Knative needs besides its own kinds. The
	// ManagedClusterAddOn has the condition too, since a kind was missing for the first time.
	DependenciesInstalled = "DependenciesInstalled"
	// InstallSucceeded reports whether every object was applied on the cluster.
	InstallSucceeded = "InstallSucceeded"
	// DeploymentsAvailable reports whether every workload runs its spec, and every Job has completed.
	DeploymentsAvailable = "DeploymentsAvailable"
)

// RemovalHeld is a condition of a ManagedClusterAddOn that is being deleted: True while the cluster keeps the whole
// installation.
const RemovalHeld = "RemovalHeld"

// ValuesResolved is a condition of a ManagedClusterAddOn whose configuration uses values of its cluster: False when values
// are missing. The condition is absent until a value was missing once.
const ValuesResolved = "ValuesResolved"

// Degraded is a condition of OCM on a ManagedClusterAddOn: True while the cluster keeps its installation because the configuration
// of the add-on yields no manifests. The condition is absent until a configuration was refused once.
const Degraded = "Degraded"

// AnnotationsPermitted is a condition of a KnativeServing or KnativeEventing: False when annotations of the resource do not
// count. The condition is absent otherwise, and Ready does not depend on the condition: the installation works without the
// annotations.
const AnnotationsPermitted = "AnnotationsPermitted"

// SettingsEffective is a condition of a KnativeServing or KnativeEventing: False when settings of the spec have no effect, or another
// effect than expected, such as a misspelled key of spec.config. The condition is absent otherwise, and Ready does not depend on the
// condition.
const SettingsEffective = "SettingsEffective"

// RenderingCurrent is a condition of a KnativeServing, KnativeEventing or ManagedClusterAddOn with one cluster: False while the cluster
// waits for its turn to get what this manager renders, Unknown until the cluster runs the rendering, and then True. The condition is
// absent until a cluster had to wait once, and Ready does not depend on the condition: the cluster runs its spec.
const RenderingCurrent = "RenderingCurrent"

// RolledOut is a condition of a KnativeServing or KnativeEventing that configures the add-ons of clusters: True when every one of these
// clusters has run the present spec. The condition is absent without such clusters.
const RolledOut = "RolledOut"

// Verified is a condition of a KnativeServing or ManagedClusterAddOn whose installation is verified: True when the Service of the
// verification was Ready on the cluster with the present installation. The condition is absent until a verification was requested once.
// Ready depends on the condition.
const Verified = "Verified"

// ConditionTypes lists the conditions of a KnativeServing or KnativeEventing: Ready, then the summarized conditions in the
// order of importance.
func ConditionTypes() []string {
	return []string{
		Ready, TargetClusterResolved, VersionMigrationEligible, DependenciesInstalled, InstallSucceeded, DeploymentsAvailable,
	}
}

// OptionalConditionTypes lists the conditions of a KnativeServing or KnativeEventing that are absent at first. Of these conditions, Ready
// depends on Verified alone. A ManagedClusterAddOn has Verified and RenderingCurrent too.
func OptionalConditionTypes() []string {
	return []string{Verified, AnnotationsPermitted, SettingsEffective, RenderingCurrent, RolledOut}
}

// AddOnConditionTypes lists the conditions that a ManagedClusterAddOn has besides.
func AddOnConditionTypes() []string { return []string{ValuesResolved, Degraded, RemovalHeld} }
