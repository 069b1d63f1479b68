// Copyright Contributors to the Open Cluster Management project

package status

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Fleet is what is known of a resource that configures the add-on on many clusters.
type Fleet struct {
	// Fault is why the spec cannot be rendered; nil when it can, to Version.
	Fault   *render.Error
	Version string
	// Clusters are the clusters whose add-on uses the resource, NotReady those of them on which it is not Available, Held
	// those that keep it although it is being deleted there.
	Clusters, NotReady, Held []string
	// Incomplete are those that do not have every value which the resource uses.
	Incomplete []string
	// Paused tells that all of them stay as they are.
	Paused bool
}

// FleetConditions are all conditions of a fleet configuration, in the order of api.ConditionTypes.
func FleetConditions(in Fleet) []metav1.Condition {
	findings := map[string]Finding{
		api.TargetClusterResolved:    {metav1.ConditionTrue, api.ReasonFleetConfiguration, in.usage()},
		api.VersionMigrationEligible: {metav1.ConditionTrue, api.ReasonEligible, "each ManagedClusterAddOn tells of its cluster"},
		api.DependenciesInstalled:    {metav1.ConditionTrue, api.ReasonNothingMissing, ""},
		api.InstallSucceeded:         {metav1.ConditionTrue, api.ReasonRendered, ""},
		api.DeploymentsAvailable:     {metav1.ConditionTrue, api.ReasonWorkloadsAvailable, ""},
	}
	if len(in.Incomplete) > 0 {
		findings[api.InstallSucceeded] = Finding{metav1.ConditionFalse, api.ReasonValueMissing, fmt.Sprintf(
			"values that this resource uses are missing on: %s; condition %s of their ManagedClusterAddOns names them", clusters(in.Incomplete), api.ValuesResolved)}
	}
	if in.Fault != nil {
		findings[api.InstallSucceeded] = Finding{metav1.ConditionFalse, string(in.Fault.Reason), in.Fault.Message}
		findings[api.DeploymentsAvailable] = Finding{metav1.ConditionUnknown, api.ReasonNotRendered, "see " + api.InstallSucceeded}
	}
	if in.Fault == nil && len(in.NotReady) > 0 {
		findings[api.DeploymentsAvailable] = Finding{metav1.ConditionFalse, api.ReasonWorkloadsNotReady, "not ready on: " + clusters(in.NotReady)}
	}
	return Summarize(findings)
}

func (f Fleet) usage() string {
	s := fmt.Sprintf("used by %d add-ons, %d ready", len(f.Clusters), len(f.Clusters)-len(f.NotReady))
	if len(f.Held) > 0 {
		s += fmt.Sprintf("; the removal of %d is held: see condition %s of the ManagedClusterAddOns", len(f.Held), api.RemovalHeld)
	}
	if f.Paused {
		s += fmt.Sprintf("; annotation %s keeps their clusters as they are", api.PausedAnnotation)
	}
	return s
}

// maxClusters is how many clusters a message names.
const maxClusters = 10

func clusters(names []string) string {
	names = slices.Sorted(slices.Values(names))
	s := strings.Join(names[:min(len(names), maxClusters)], ", ")
	if more := len(names) - maxClusters; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
