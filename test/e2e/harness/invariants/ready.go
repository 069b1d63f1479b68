// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/lab"
)

// ReportConsistently is invariant I3 for every status that the add-on wrote during a story: Ready is True only when the conditions
// that Ready summarizes are True.
func ReportConsistently(changes []lab.Change) []string {
	var out []string
	for i := range changes {
		c := &changes[i]
		required, optional := summarizedConditions(c.Group)
		if len(required) == 0 || !strings.HasSuffix(c.Resource, "/status") || len(c.Content) == 0 {
			continue
		}
		var written struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(c.Content, &written); err != nil {
			out = append(out, fmt.Sprintf("the write of the status of %s cannot be read: %v", describeChange(c), err))
			continue
		}
		if !apimeta.IsStatusConditionTrue(written.Status.Conditions, api.Ready) {
			continue
		}
		if without := findNotTrue(written.Status.Conditions, required, optional); without != "" {
			out = append(out, fmt.Sprintf("the status of %s was written with Ready=True and %s", describeChange(c), without))
		}
	}
	return out
}

// summarizedConditions returns the conditions that Ready summarizes in resources of a group of this project; none for other groups. A status
// may lack an optional condition.
func summarizedConditions(group string) (required, optional []string) {
	switch group {
	case api.Group:
		return api.ConditionTypes(), []string{api.Verified}
	case fleetv1alpha1.Group:
		return []string{fleetv1alpha1.RolledOut, fleetv1alpha1.TargetClusterResolved},
			[]string{fleetv1alpha1.VersionMigrationEligible, fleetv1alpha1.DependenciesInstalled}
	}
	return nil, nil
}

// findNotTrue returns the first condition that contradicts Ready=True, or an empty text.
func findNotTrue(conditions []metav1.Condition, required, optional []string) string {
	for _, condition := range slices.Concat(required, optional) {
		c := apimeta.FindStatusCondition(conditions, condition)
		switch {
		case c == nil && slices.Contains(required, condition):
			return condition + "=absent"
		case c != nil && c.Status != metav1.ConditionTrue:
			return fmt.Sprintf("%s=%s", condition, c.Status)
		}
	}
	return ""
}

// Workload is a Deployment or StatefulSet that the add-on has delivered.
type Workload struct {
	Name                 string
	Generation, Observed int64
	Desired, Available   int32
}

// Installation is an installation that is reported to work, with its workloads on the cluster.
type Installation struct {
	// Name names the resource or the add-on that reports.
	Name                 string
	Cluster              string
	Generation, Observed int64
	Workloads            []Workload
	// FalseConditions are the conditions of ManifestWorks that are False, such as "ManifestWork a/b: Available"; empty while a rollout waits
	// for the cluster.
	FalseConditions []string
}

// RunAsReported is invariant I3 at the end of a story: an installation that is reported to work has workloads, and all of them run
// their spec. Its ManifestWorks are Applied and Available.
func RunAsReported(i *Installation) []string {
	var out []string
	for _, condition := range i.FalseConditions {
		out = append(out, fmt.Sprintf("%s is Available, and a condition is False: %s", i.Name, condition))
	}
	if i.Generation != i.Observed {
		out = append(out, fmt.Sprintf("%s is Ready for generation %d, and has generation %d", i.Name, i.Observed, i.Generation))
	}
	if len(i.Workloads) == 0 {
		out = append(out, fmt.Sprintf("%s is Ready, and %s has none of its workloads", i.Name, i.Cluster))
	}
	for _, w := range i.Workloads {
		if w.Observed != w.Generation || w.Available < w.Desired {
			out = append(out, fmt.Sprintf("%s is Ready, and on %s %s has %d of %d replicas, and generation %d of %d",
				i.Name, i.Cluster, w.Name, w.Available, w.Desired, w.Observed, w.Generation))
		}
	}
	return out
}
