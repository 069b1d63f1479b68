// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// WorkloadKey names a Deployment or StatefulSet.
type WorkloadKey struct{ Kind, Namespace, Name string }

// WorkloadState is the last reported state of a Deployment or StatefulSet.
type WorkloadState struct {
	WorkloadKey
	workload.State
}

// NotRolledOut lists the expected workloads that do not run their spec, sorted, each with the reason.
func NotRolledOut(expected []workload.Expected, seen []WorkloadState) []string {
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

// Summary joins the list of NotRolledOut into one message.
func Summary(notRolledOut []string) string { return strings.Join(notRolledOut, "; ") }

// LongestStop is the time after which a removal continues although the cluster still counts pods, or still has the Service of a verification. The
// pods of Knative's activator and gateway need up to a minute, and a controller manager needs up to a minute after a restart of its API server. A
// cluster without a working controller manager never stops counting pods, and a policy of a cluster may refuse to stop a workload.
const LongestStop = 3 * time.Minute

// maxNamed is the number of objects that a message names.
const maxNamed = 5

// Listed joins the first names into a message, with the number of the remaining names.
func Listed(names []string) string { return message.List(names, maxNamed) }
