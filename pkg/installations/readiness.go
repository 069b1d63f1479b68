// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"cmp"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// maxMessage is the number of bytes of a message.
const maxMessage = 4096

// setCondition sets the fields of the installation that come from the condition.
func (i *Installation) setCondition(c metav1.Condition) {
	i.Ready, i.Reason, i.Message = c.Status, cleanText(c.Reason), message.OneLine(c.Message, maxMessage)
	if !c.LastTransitionTime.IsZero() {
		i.Since = &c.LastTransitionTime
	}
}

// readResource returns the condition that decides about a resource: Ready, if the manager has reported on the present spec.
func readResource(config *unstructured.Unstructured) metav1.Condition {
	ready := findCondition(config, api.Ready)
	switch {
	case ready.Type == "":
		return notReported("the manager has not reported on the resource yet")
	case !isReported(config):
		return notReported(fmt.Sprintf("the manager has not reported on generation %d yet", config.GetGeneration()))
	}
	return ready
}

func notReported(message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonNotReported, Message: message}
}

// isReported reports whether the status belongs to the present spec.
func isReported(config *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(config.Object, "status", "observedGeneration")
	return observed == config.GetGeneration()
}

// readAddOn returns the condition that decides about an add-on: the first that is False, or else Unknown, in the order of importance.
// hasCompleted reports whether the cluster has completed the spec that OCM has assigned to the add-on.
func readAddOn(addOn *addonv1beta1.ManagedClusterAddOn, hasCompleted bool) metav1.Condition {
	if addOn.DeletionTimestamp != nil {
		return readRemoval(addOn)
	}
	available := addonv1beta1.ManagedClusterAddOnConditionAvailable
	conditions := addOn.Status.Conditions
	var unknown *metav1.Condition
	for _, of := range []string{
		api.TargetClusterResolved, api.VersionMigrationEligible, api.DependenciesInstalled, api.ValuesResolved, addonv1beta1.ManagedClusterAddOnManifestApplied, available,
	} {
		c := apimeta.FindStatusCondition(conditions, of)
		switch {
		case c == nil && (of == available || of == api.TargetClusterResolved):
			c = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonNotReported, Message: "the ManagedClusterAddOn has no condition " + of}
		case c == nil || c.Status == metav1.ConditionTrue:
			continue
		case c.Status == metav1.ConditionFalse:
			return *c
		}
		unknown = cmp.Or(unknown, c)
	}
	degraded, verified := apimeta.FindStatusCondition(conditions, api.Degraded), apimeta.FindStatusCondition(conditions, api.Verified)
	switch {
	case degraded != nil && degraded.Status == metav1.ConditionTrue:
		return metav1.Condition{
			Status: metav1.ConditionFalse, Reason: degraded.Reason, Message: degraded.Message, LastTransitionTime: degraded.LastTransitionTime,
		}
	case unknown != nil:
		return *unknown
	case verified != nil && verified.Status != metav1.ConditionTrue: // the add-on has completed the spec after the verification
		return *verified
	case !hasCompleted:
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: api.ReasonDelivering, Message: "the cluster does not run the spec that OCM has assigned to the add-on yet",
		}
	}
	ready := *apimeta.FindStatusCondition(conditions, available)
	ready.Reason, ready.Message = api.ReasonReady, ""
	return ready
}

// readRemoval returns the condition of an add-on that is being deleted. The status is Unknown, as in Ready of a resource.
func readRemoval(addOn *addonv1beta1.ManagedClusterAddOn) metav1.Condition {
	c := apimeta.FindStatusCondition(addOn.Status.Conditions, api.RemovalHeld)
	if c == nil {
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: api.ReasonRemoving, Message: "the ManagedClusterAddOn is being deleted",
			LastTransitionTime: *addOn.DeletionTimestamp,
		}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime}
}

// findCondition returns a condition of a resource; the zero value when the resource lacks the condition.
func findCondition(config *unstructured.Unstructured, of string) metav1.Condition {
	return ptr.Deref(apimeta.FindStatusCondition(conditionsOf(config), of), metav1.Condition{})
}

// conditionsOf returns the conditions of a resource that can be read.
func conditionsOf(config *unstructured.Unstructured) []metav1.Condition {
	field, _, _ := unstructured.NestedFieldNoCopy(config.Object, "status", "conditions")
	list, _ := field.([]any)
	var out []metav1.Condition
	for _, item := range list {
		fields, isMap := item.(map[string]any)
		var c metav1.Condition
		if isMap && runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) == nil {
			out = append(out, c)
		}
	}
	return out
}
