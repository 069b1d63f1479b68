// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// ReportConsistently is invariant I3 for every status that the add-on wrote during a story: Ready is True only when the conditions
// that Ready summarizes are True.
func ReportConsistently(changes []lab.Change) []string {
	var out []string
	for i := range changes {
		c := &changes[i]
		if c.Group != api.Group || !strings.HasSuffix(c.Resource, "/status") || len(c.Content) == 0 {
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
		if without := notTrue(written.Status.Conditions); without != "" {
			out = append(out, fmt.Sprintf("the status of %s was written with Ready=True and %s", describeChange(c), without))
		}
	}
	return out
}

// notTrue returns the first condition that contradicts Ready=True, or an empty text.
func notTrue(conditions []metav1.Condition) string {
	status := func(condition string) metav1.ConditionStatus {
		i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == condition })
		if i < 0 {
			return "absent"
		}
		return conditions[i].Status
	}
	if status(api.Ready) != metav1.ConditionTrue {
		return ""
	}
	for _, condition := range api.ConditionTypes() {
		if s := status(condition); s != metav1.ConditionTrue {
			return fmt.Sprintf("%s=%s", condition, s)
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
