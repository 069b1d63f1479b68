// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"fmt"
	"slices"
	"strings"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// WorkloadKey names a Deployment or StatefulSet.
type WorkloadKey struct{ Kind, Namespace, Name string }

// WorkloadState is what was last seen of a Deployment or StatefulSet. Counts are pods.
type WorkloadState struct {
	WorkloadKey
	// Generation and ObservedGeneration are of the object; they differ while its controller has not seen the last change.
	Generation, ObservedGeneration int64
	// Desired is spec.replicas; the others are of the status: all pods, those of the newest template, and those that
	// have been ready for long enough.
	Desired, Total, Updated, Available int64
}

// RolledOut tells whether the workload runs what its spec says, and if not, why, as kubectl rollout status would.
func (w WorkloadState) RolledOut() (done bool, why string) {
	switch {
	case w.ObservedGeneration < w.Generation:
		return false, "its last change is not observed yet"
	case w.Updated < w.Desired:
		return false, fmt.Sprintf("%d of %d pods are updated", w.Updated, w.Desired)
	case w.Total > w.Updated:
		return false, fmt.Sprintf("%d old pods are still there", w.Total-w.Updated)
	case w.Available < w.Updated:
		return false, fmt.Sprintf("%d of %d pods are available", w.Available, w.Updated)
	}
	return true, ""
}

// NotRolledOut lists the expected workloads that do not run what they should, sorted, each with why.
func NotRolledOut(expected []render.Workload, seen []WorkloadState) []string {
	states := make(map[WorkloadKey]WorkloadState, len(seen))
	for _, s := range seen {
		states[s.WorkloadKey] = s
	}
	var out []string
	for _, w := range expected {
		s, ok := states[WorkloadKey{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}]
		if !ok {
			out = append(out, fmt.Sprintf("%s %s/%s: not seen yet", w.Kind, w.Namespace, w.Name))
			continue
		}
		if done, why := s.RolledOut(); !done {
			out = append(out, fmt.Sprintf("%s %s/%s: %s", w.Kind, w.Namespace, w.Name, why))
		}
	}
	slices.Sort(out)
	return out
}

// Summary joins what NotRolledOut lists into one message.
func Summary(notRolledOut []string) string { return strings.Join(notRolledOut, "; ") }

// maxNamed is how many objects a message names.
const maxNamed = 5

// Listed names the first objects in a message, and says how many more there are.
func Listed(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
