// Copyright Contributors to the Open Cluster Management project

package workload

import (
	"fmt"
)

// Expected is a Deployment or StatefulSet that the installation must bring up.
type Expected struct {
	Kind, Namespace, Name string
	// Replicas is the expected number of pods; nil when the cluster decides.
	Replicas *int32
	// ScaledBy names the decider then, as in "HorizontalPodAutoscaler/activator" or "eventing-controller".
	ScaledBy string
	// Webhook reports whether the pods answer admission or conversion webhooks. A removal stops such a workload right
	// before the webhook configurations, because the pods restore their configurations.
	Webhook bool
}

// JobRef names a Job that must complete once for the bundle's version.
type JobRef struct{ Namespace, Name string }

// State is the state of a Deployment or StatefulSet. Counts are pods.
type State struct {
	// Generation and ObservedGeneration are those of the object; the numbers differ until the controller has observed the
	// last change.
	Generation, ObservedGeneration int64
	// Desired is spec.replicas. The other counts are of the status: all pods, pods of the newest template, and pods that
	// have been ready long enough.
	Desired, Total, Updated, Available int64
	// Terminating is the number of pods of a Deployment that are being deleted, which Total lacks. Clusters count such pods since
	// Kubernetes 1.35. Total of a StatefulSet contains all pods.
	Terminating int64
}

// IsStopped reports whether the workload shall have no pods, and has none.
func (s State) IsStopped() bool {
	return s.Generation > 0 && s.ObservedGeneration >= s.Generation && s.Desired == 0 && s.Total == 0 && s.Terminating == 0
}

// IsAvailable reports whether as many pods are available as Kubernetes demands of a Deployment with the default of maxUnavailable, 25 %.
func (s State) IsAvailable() bool { return 4*s.Available >= 3*s.Desired }

// RolledOut reports whether the workload runs the spec, with the reason if not, by the rules of kubectl rollout status.
func (s State) RolledOut() (done bool, why string) {
	switch {
	case s.ObservedGeneration < s.Generation:
		return false, "its last change is not observed yet"
	case s.Updated < s.Desired:
		return false, fmt.Sprintf("%d of %d pods are updated", s.Updated, s.Desired)
	case s.Total > s.Updated:
		return false, fmt.Sprintf("%d old pods are still there", s.Total-s.Updated)
	case s.Available < s.Updated:
		return false, fmt.Sprintf("%d of %d pods are available", s.Available, s.Updated)
	}
	return true, ""
}

// ServiceState is the last reported state of the Knative Service of a verification. The texts are of the cluster.
type ServiceState struct {
	// Verifies names the rendering that the revision template of the Service verifies.
	Verifies string
	// Generation and ObservedGeneration are 0 without a report.
	Generation, ObservedGeneration int64
	// Ready is the status of condition Ready, empty without the condition; Reason and Message are those of the condition.
	Ready, Reason, Message string
}

// Observed reports whether Knative has observed the Service that verifies the rendering.
func (s *ServiceState) Observed(rendering string) bool {
	return s != nil && rendering != "" && s.Verifies == rendering && s.Generation > 0 && s.ObservedGeneration == s.Generation
}

// IsReady reports whether the Service that verifies the rendering is Ready at its generation. A Service that was Ready for an earlier
// rendering does not count.
func (s *ServiceState) IsReady(rendering string) bool {
	return s.Observed(rendering) && s.Ready == "True"
}
