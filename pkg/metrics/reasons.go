// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

const (
	// ReasonNotReported is the reason of a condition that an object does not have.
	ReasonNotReported = "NotReported"
	// ReasonOther stands for every reason that the add-on does not know, such as the reasons of another writer.
	ReasonOther = "Other"

	statusTrue = string(metav1.ConditionTrue)
)

// verdict is a status and a reason of a condition, as labels.
type verdict struct{ status, reason string }

// value returns 1 for a condition that is True, and 0 for another.
func (v verdict) value() float64 {
	if v.status == statusTrue {
		return 1
	}
	return 0
}

// boundedReasons are the reasons that may become labels, by condition.
type boundedReasons map[string]map[string]bool

// newBoundedReasons returns the reasons of package api and of KnativeFleets, and the reasons that OCM and the add-on give condition Available.
func newBoundedReasons() boundedReasons {
	out := boundedReasons{
		api.Ready: {}, api.TargetClusterResolved: {},
		addonv1beta1.ManagedClusterAddOnConditionAvailable: {
			addonv1beta1.AddonAvailableReasonWorkNotFound: true, addonv1beta1.AddonAvailableReasonWorkApplyFailed: true,
			addonv1beta1.AddonAvailableReasonWorkNotApply: true, addonv1beta1.AddonAvailableReasonWorkApply: true,
			addonv1beta1.AddonAvailableReasonNoProbeResult: true, addonv1beta1.AddonAvailableReasonProbeUnavailable: true,
			addonv1beta1.AddonAvailableReasonProbeAvailable: true, addonv1beta1.AddonAvailableReasonLeaseUpdateStopped: true,
			addonv1beta1.AddonAvailableReasonLeaseLeaseNotFound: true, addonv1beta1.AddonAvailableReasonLeaseLeaseUpdated: true,
			api.ReasonRemoving: true,
		},
	}
	for condition, reasons := range api.Reasons() {
		for _, reason := range reasons {
			out[api.Ready][reason] = true // Ready repeats the reason of another condition
			if condition == api.TargetClusterResolved {
				out[api.TargetClusterResolved][reason] = true
			}
		}
	}
	for _, reason := range fleetv1alpha1.Reasons()[fleetv1alpha1.Ready] {
		out[api.Ready][reason] = true
	}
	return out
}

// boundLabels returns the labels of a condition. A condition that is absent has no status.
func (r boundedReasons) boundLabels(condition, status, reason string) verdict {
	unknown := string(metav1.ConditionUnknown)
	switch {
	case status == "":
		return verdict{unknown, ReasonNotReported}
	case status != statusTrue && status != string(metav1.ConditionFalse):
		status = unknown
	}
	if !r[condition][reason] {
		reason = ReasonOther
	}
	return verdict{status, reason}
}
