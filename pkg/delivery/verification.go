// Copyright Contributors to the Open Cluster Management project

package delivery

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// Verification holds the facts about the verification of one installation.
type Verification struct {
	// Verified reports whether the verification of the present installation has succeeded.
	Verified bool
	// Runs reports whether the cluster runs the installation, so that the verification has begun.
	Runs bool
	// Rendering names the rendering to verify, and Service is the reported state of the Service; nil without a report.
	Rendering string
	Service   *workload.ServiceState
	// Refusal is the text of a cluster that refuses the Service; empty without a refusal.
	Refusal string
}

// maxTexts is the number of bytes of each text of the Service, or of a refusal, in the message of condition Verified.
const maxTexts = 300

// Describe returns status, reason and message of condition Verified.
func (v *Verification) Describe() (status metav1.ConditionStatus, reason, text string) {
	const waits = "the cluster runs Knative, and the verification waits for Service " + api.VerificationServiceName
	switch {
	case v.Verified:
		return metav1.ConditionTrue, api.ReasonVerificationSucceeded, "Service " + api.VerificationServiceName + " was Ready"
	case !v.Runs:
		return metav1.ConditionUnknown, api.ReasonDelivering, "the verification begins when the cluster runs Knative"
	case v.Refusal != "":
		return metav1.ConditionFalse, api.ReasonVerificationFailed, fmt.Sprintf("%s, which the cluster refuses: %s", waits, message.OneLine(v.Refusal, maxTexts))
	case !v.Service.Observed(v.Rendering), v.Service.Ready == "", v.Service.IsReady(v.Rendering):
		return metav1.ConditionFalse, api.ReasonVerifying, waits
	}
	reason = api.ReasonVerifying
	if v.Service.Ready == string(metav1.ConditionFalse) {
		reason = api.ReasonVerificationFailed
	}
	return metav1.ConditionFalse, reason, fmt.Sprintf("%s, whose condition Ready is %s: %s: %s", waits, message.OneLine(v.Service.Ready, maxTexts),
		message.OneLine(cmp.Or(v.Service.Reason, "no reason"), maxTexts), message.OneLine(cmp.Or(v.Service.Message, "no message"), maxTexts))
}
