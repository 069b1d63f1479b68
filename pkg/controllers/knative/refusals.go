// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/target"
)

const (
	// deleteOne ends the message about two resources for one cluster.
	deleteOne = "delete one of the two: this one goes on once the other is gone"
	// orAdopt ends the message about objects that an annotation permits to take over; the argument is the annotation.
	orAdopt = "set annotation %s to \"true\" to have it taken over, which counts in a namespace that rendering.trustedNamespaces of the chart lists"
)

// refusedAnnotations returns the finding of annotations that do not count; nil when all annotations count.
func refusedAnnotations(annotations target.Annotations) *status.Finding {
	if annotations.Reason == "" {
		return nil
	}
	return &status.Finding{Status: metav1.ConditionFalse, Reason: annotations.Reason, Message: "these do not count: " + annotations.Message}
}

// pausedMessage describes a cluster whose installation differs from the spec because of a pause.
func pausedMessage(pausedBy, cluster string) string {
	return fmt.Sprintf("paused by %s: %s keeps what it has instead of this spec; take it away to go on", pausedBy, cluster)
}

// unresolvedTarget returns the finding of a target that does not permit an installation.
func unresolvedTarget(reason, format string, args ...any) status.Finding {
	return status.Finding{Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// findingOfResolution translates the result of package resolve.
func findingOfResolution(result resolve.Result) status.Finding {
	if result.Resolved() {
		return status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved}
	}
	return status.Finding{Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message}
}

// ownershipRefusal returns the finding of an error of a direct delivery which means that the cluster has the component for
// another owner. The result is false for any other error.
func ownershipRefusal(err error, cluster string, c api.Component) (status.Finding, bool) {
	owner, foreign, existing := (*inventory.OwnershipError)(nil), (*inventory.UnmanagedError)(nil), (*direct.ExistingNamespaceError)(nil)
	switch {
	case errors.As(err, &existing):
		return unresolvedTarget(api.ReasonEscalationNotPermitted,
			"%s had namespace %q before, and annotation %s may name such a namespace only in a namespace of the hub that is trusted; name a namespace that the cluster does not have, remove the annotation, or let the hub's administrator add the namespace of this resource to rendering.trustedNamespaces of the chart",
			cluster, existing.Namespace, api.InstallNamespaceAnnotation), true
	case errors.As(err, &owner):
		return unresolvedTarget(api.ReasonTargetConflict, "%s has %s %s", cluster, c, describeOwner(owner, c)), true
	case errors.As(err, &foreign):
		return unresolvedTarget(api.ReasonExistingInstallation, "%s has %s already, and it is not ours: %s; it is left alone: remove it, or %s",
			cluster, c, delivery.Listed(foreign.Objects), orAdoptIn(foreign.OtherNamespaces)), true
	}
	return status.Finding{}, false
}

// orAdoptIn ends the message about an installation that may be adopted. An installation in other namespaces than the install
// namespace is adopted in its own namespace only: otherwise the cluster would have two.
func orAdoptIn(otherNamespaces []string) string {
	adopt := fmt.Sprintf(orAdopt, api.AdoptAnnotation)
	switch len(otherNamespaces) {
	case 0:
		return adopt
	case 1:
		return fmt.Sprintf("set annotation %s to %q, the namespace of that installation, and %s", api.InstallNamespaceAnnotation, otherNamespaces[0], adopt)
	default:
		return fmt.Sprintf("keep one of the installations in namespaces %s, set annotation %s to the namespace of that installation, and %s",
			delivery.Listed(otherNamespaces), api.InstallNamespaceAnnotation, adopt)
	}
}

// describeOwner describes the owner of the component on a cluster, and the choices of the user.
func describeOwner(owner *inventory.OwnershipError, c api.Component) string {
	switch {
	case owner.WorkAgent:
		return fmt.Sprintf("by the work agent of OCM, for this or another hub (%s): %s; remove one of the two, and this one goes on if it is left, or %s",
			owner.Owner, delivery.Listed(owner.Objects), orAdoptIn(owner.OtherNamespaces))
	case owner.SameHub:
		return fmt.Sprintf("for %s %q, which came first; "+deleteOne, c.Kind(), owner.Owner)
	case owner.Adoptable():
		return fmt.Sprintf("for %s %q of another hub; delete one of the two, and this one goes on if it is left, or, if that hub is gone for ever, "+orAdopt,
			c.Kind(), owner.Owner, api.AdoptAnnotation)
	}
	return fmt.Sprintf("for %s %q of another hub; "+deleteOne, c.Kind(), owner.Owner)
}
