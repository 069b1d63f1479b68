// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// TestDescribeVerification holds condition Verified for each state of a verification, and that the texts of a cluster are short and on one
// line.
func TestDescribeVerification(t *testing.T) {
	service := func(rendering, ready string, observed int64) *workload.ServiceState {
		return &workload.ServiceState{Verifies: rendering, Generation: 2, ObservedGeneration: observed, Ready: ready, Reason: "RevisionMissing", Message: "first\nsecond"}
	}
	for name, tc := range map[string]struct {
		in     Verification
		status metav1.ConditionStatus
		reason string
		text   string
	}{
		"verified":                       {Verification{Verified: true}, metav1.ConditionTrue, api.ReasonVerificationSucceeded, "was Ready"},
		"before Knative runs":            {Verification{Rendering: "r1"}, metav1.ConditionUnknown, api.ReasonDelivering, "begins when"},
		"refused":                        {Verification{Rendering: "r1", Runs: true, Refusal: "denied\nby policy"}, metav1.ConditionFalse, api.ReasonVerificationFailed, "refuses: denied by policy"},
		"no report":                      {Verification{Rendering: "r1", Runs: true}, metav1.ConditionFalse, api.ReasonVerifying, "waits for Service"},
		"a report of another generation": {Verification{Rendering: "r1", Runs: true, Service: service("r1", "False", 1)}, metav1.ConditionFalse, api.ReasonVerifying, "waits for Service"},
		"a report of another rendering":  {Verification{Rendering: "r1", Runs: true, Service: service("r0", "True", 2)}, metav1.ConditionFalse, api.ReasonVerifying, "waits for Service"},
		"not ready":                      {Verification{Rendering: "r1", Runs: true, Service: service("r1", "False", 2)}, metav1.ConditionFalse, api.ReasonVerificationFailed, "RevisionMissing: first second"},
		"on the way":                     {Verification{Rendering: "r1", Runs: true, Service: service("r1", "Unknown", 2)}, metav1.ConditionFalse, api.ReasonVerifying, "Ready is Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			status, reason, text := tc.in.Describe()
			if status != tc.status || reason != tc.reason || !strings.Contains(text, tc.text) {
				t.Errorf("the condition is %s %s %q", status, reason, text)
			}
		})
	}
	_, _, text := (&Verification{Rendering: "r1", Runs: true, Refusal: strings.Repeat("x", 10000)}).Describe()
	if len(text) > 2*maxTexts {
		t.Errorf("the message has %d bytes", len(text))
	}
}
