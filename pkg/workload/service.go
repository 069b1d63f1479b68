// Copyright Contributors to the Open Cluster Management project

package workload

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
