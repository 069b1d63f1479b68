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

// orAdopt ends the message about an installation that an annotation permits to adopt; the argument is the annotation.
const orAdopt = "set annotation %s to \"true\" to adopt the installation, which takes effect in a namespace that rendering.trustedNamespaces of the chart lists"

// refusedAnnotations returns the finding of annotations that do not count; nil when all annotations count.
func refusedAnnotations(annotations target.Annotations) *status.Finding {
	if annotations.Reason == "" {
		return nil
	}
	return &status.Finding{Status: metav1.ConditionFalse, Reason: annotations.Reason, Message: "annotations without effect: " + annotations.Message}
}

// pausedMessage describes a cluster whose installation differs from the spec because of a pause.
func pausedMessage(pausedBy, cluster string) string {
	return fmt.Sprintf("paused by %s: %s keeps its installation instead of this spec; remove the annotation to continue", pausedBy, cluster)
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
		return findingOfResolution(*target.RefuseNamespace(fmt.Sprintf("%s had namespace %q before", cluster, existing.Namespace), c)), true
	case errors.As(err, &owner):
		return unresolvedTarget(api.ReasonTargetConflict, "%s has %s %s", cluster, c, describeOwner(owner, c)), true
	case errors.As(err, &foreign):
		return findingOfResolution(*target.RefuseUnmanaged(cluster, c, foreign.Objects, orAdoptIn(foreign.OtherNamespaces))), true
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
		return fmt.Sprintf("by the work agent of OCM, for this or another hub (%s): %s; "+target.RemoveOne+"; or %s",
			owner.Owner, delivery.Listed(owner.Objects), orAdoptIn(owner.OtherNamespaces))
	case owner.SameHub:
		return fmt.Sprintf("for %s %q, which came first; "+target.RemoveOne, c.Kind(), owner.Owner)
	case owner.Adoptable():
		return fmt.Sprintf("for %s %q of another hub; "+target.RemoveOne+"; or, if the other hub no longer exists, "+orAdopt,
			c.Kind(), owner.Owner, api.AdoptAnnotation)
	}
	return fmt.Sprintf("for %s %q of another hub; "+target.RemoveOne, c.Kind(), owner.Owner)
}
