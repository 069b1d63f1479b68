// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const (
	// transitionInterval is the time between two transitions of a cluster between reachable and unreachable that the status of a
	// resource reports, after the first transitionBurst transitions. Each such transition is a write and an Event.
	transitionInterval = 20 * time.Second
	transitionBurst    = 3
)

// isTransition reports whether the cluster of a resource became reachable or unreachable since the last status of the same spec.
func isTransition(last, now resourceStatus) bool {
	before := apimeta.FindStatusCondition(last.Conditions, api.TargetClusterResolved)
	after := apimeta.FindStatusCondition(now.Conditions, api.TargetClusterResolved)
	return before != nil && after != nil && before.Status != after.Status && last.ObservedGeneration == now.ObservedGeneration
}
