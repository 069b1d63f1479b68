// Copyright Contributors to the Open Cluster Management project

package status

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Fleet holds every fact about a resource that configures the add-on on many clusters.
type Fleet struct {
	// Fault is the reason why the spec cannot be rendered; nil when the spec can be rendered. Version is the rendered
	// version.
	Fault   *render.Error
	Version string
	// Clusters are the clusters whose add-on uses the resource. NotReady are the clusters without Ready workloads, and Outdated
	// the other clusters that do not run the present spec. Held are the clusters whose add-on is being deleted while the removal
	// is held.
	Clusters, NotReady, Outdated, Held []string
	// Waiting are the clusters that stay selected and did not run the present spec completely yet, Failed the clusters on which the
	// present spec failed.
	Waiting, Failed []string
	// Unresolved, Ineligible and Lacking are the clusters whose add-on reports TargetClusterResolved, VersionMigrationEligible and
	// DependenciesInstalled as False.
	Unresolved, Ineligible, Lacking []string
	// Rollout counts the selected clusters.
	Rollout fleetv1alpha1.RolloutStatus
	// Unverified are the clusters whose requested verification has not succeeded yet.
	Unverified []string
	// Incomplete are the clusters that lack values which the resource uses.
	Incomplete []string
	// Paused reports whether an annotation keeps all clusters as they are.
	Paused bool
	// Annotations explains why annotations of the resource do not count; nil when every annotation counts.
	Annotations *Finding
	// Warnings name settings without effect, or with another effect than expected.
	Warnings []string
}

// FleetConditions returns all conditions of a fleet configuration, in the order of api.ConditionTypes.
func FleetConditions(in Fleet) []metav1.Condition {
	findings := map[string]Finding{
		api.TargetClusterResolved: in.aggregate(in.Unresolved, api.TargetClusterResolved, api.ReasonClustersUnresolved,
			Finding{metav1.ConditionTrue, api.ReasonFleetConfiguration, in.describeUsage()}),
		api.VersionMigrationEligible: in.aggregate(in.Ineligible, api.VersionMigrationEligible, api.ReasonNotEligible,
			Finding{metav1.ConditionTrue, api.ReasonEligible, "no ManagedClusterAddOn reports another state of its cluster"}),
		api.DependenciesInstalled: in.aggregate(in.Lacking, api.DependenciesInstalled, api.ReasonKindMissing,
			Finding{metav1.ConditionTrue, api.ReasonNothingMissing, ""}),
		api.InstallSucceeded:     {metav1.ConditionTrue, api.ReasonRendered, ""},
		api.DeploymentsAvailable: {metav1.ConditionTrue, api.ReasonWorkloadsAvailable, ""},
	}
	if len(in.Outdated) > 0 {
		reason := api.ReasonDelivering
		if in.Paused {
			reason = api.ReasonPaused
		}
		findings[api.InstallSucceeded] = Finding{metav1.ConditionUnknown, reason, fmt.Sprintf(
			"the present spec does not run yet on: %s; see the conditions of the ManagedClusterAddOns", listClusters(in.Outdated))}
	}
	if len(in.Unverified) > 0 {
		findings[api.Verified] = Finding{metav1.ConditionFalse, api.ReasonVerifying, fmt.Sprintf(
			"the verification did not succeed yet on: %s; see condition %s of the ManagedClusterAddOns", listClusters(in.Unverified), api.Verified)}
	}
	if len(in.Incomplete) > 0 {
		findings[api.InstallSucceeded] = Finding{metav1.ConditionFalse, api.ReasonValueMissing, fmt.Sprintf(
			"values that this resource uses are missing on: %s; condition %s of their ManagedClusterAddOns names them", listClusters(in.Incomplete), api.ValuesResolved)}
	}
	if in.Fault != nil {
		findings[api.InstallSucceeded] = Finding{metav1.ConditionFalse, string(in.Fault.Reason), in.Fault.Message}
	}
	if in.Fault != nil && len(in.Clusters) == 0 {
		findings[api.DeploymentsAvailable] = Finding{metav1.ConditionUnknown, api.ReasonNotRendered, "see " + api.InstallSucceeded}
	}
	if len(in.NotReady) > 0 {
		findings[api.DeploymentsAvailable] = Finding{metav1.ConditionFalse, api.ReasonWorkloadsNotReady, "not ready on: " + listClusters(in.NotReady)}
	}
	conditions := Summarize(findings)
	if ready := &conditions[0]; len(in.Clusters) == 0 && ready.Status == metav1.ConditionTrue {
		ready.Reason, ready.Message = api.ReasonUnused, unusedMessage
	}
	conditions = appendOptional(conditions, &Installation{Annotations: in.Annotations}, in.Warnings)
	if len(in.Clusters) > 0 {
		conditions = append(conditions, newCondition(api.RolledOut, in.rolledOut()))
	}
	return conditions
}

// aggregate returns the finding of a condition that add-ons report as False on the clusters, or otherwise when no add-on does.
func (f *Fleet) aggregate(clusters []string, condition, reason string, otherwise Finding) Finding {
	if len(clusters) == 0 {
		return otherwise
	}
	message := fmt.Sprintf("condition %s of the ManagedClusterAddOns is False on: %s", condition, listClusters(clusters))
	if condition == api.TargetClusterResolved {
		message += "; " + f.describeUsage()
	}
	return Finding{metav1.ConditionFalse, reason, message}
}

// rolledOut returns the finding of RolledOut. The first case that applies counts.
func (f *Fleet) rolledOut() Finding {
	counts := fmt.Sprintf("%d of %d clusters have run the present spec", len(f.Clusters)-len(f.Waiting), len(f.Clusters))
	onTheWay := len(f.Waiting) - len(f.Failed) - len(f.Unresolved)
	switch {
	case f.Fault != nil:
		return Finding{metav1.ConditionFalse, api.ReasonNotRendered, "see " + api.InstallSucceeded}
	case len(f.Waiting) == 0:
		return Finding{metav1.ConditionTrue, api.ReasonRolledOut, ""}
	case f.Paused:
		return Finding{metav1.ConditionFalse, api.ReasonPaused, counts}
	case onTheWay <= 0 && len(f.Failed) > 0:
		return Finding{metav1.ConditionFalse, api.ReasonClustersFailed, counts + "; failed are: " + listClusters(f.Failed)}
	}
	return Finding{metav1.ConditionFalse, api.ReasonProgressing, counts}
}

// unusedMessage names the ways to use a fleet configuration.
const unusedMessage = "no add-on uses this configuration, so that nothing is installed: create a resource with spec.clusterProfileRef to install " +
	"on one cluster, or enable the add-on with this resource as its configuration"

func (f *Fleet) describeUsage() string {
	s := fmt.Sprintf("used by %d add-ons, %d ready", len(f.Clusters), f.countReady())
	if len(f.Held) > 0 {
		s += fmt.Sprintf("; the removal of %d is held: see condition %s of the ManagedClusterAddOns", len(f.Held), api.RemovalHeld)
	}
	if f.Paused {
		s += fmt.Sprintf("; annotation %s keeps their clusters unchanged", api.PausedAnnotation)
	}
	return s
}

// countReady counts the clusters that run the present spec, and whose verification has succeeded.
func (f *Fleet) countReady() int {
	notReady := slices.Concat(f.NotReady, f.Outdated, f.Unverified)
	slices.Sort(notReady)
	return len(f.Clusters) - len(slices.Compact(notReady))
}

// listClusters returns the names of the first clusters and the number of the others.
func listClusters(names []string) string {
	const maxClusters = 10
	return message.List(slices.Sorted(slices.Values(names)), maxClusters)
}
