// Copyright Contributors to the Open Cluster Management project

package delivery

import "open-cluster-management.io/knative-addon/pkg/workload"

// Kept is the state of the installation that a cluster keeps while the spec of the resource yields no bundle. The installation
// itself says which workloads and Jobs to expect.
type Kept struct {
	Workloads   []workload.Expected
	Jobs        []workload.JobRef
	Observation Observation
}

// NotReady lists the workloads and Jobs of the installation that are not ready, sorted, each with the reason.
func (k *Kept) NotReady() []string { return k.Observation.NotReady(k.Workloads, k.Jobs) }
