// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsMissing reports whether an error is the response of an API server that has no object of the name. The API server names the object; a proxy that
// answers 404 in place of the API server does not.
func IsMissing(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && name != ""
}

// UnmanagedError reports that the cluster has an installation of the component which no anchor of this add-on records.
type UnmanagedError struct {
	// Objects name the objects of that installation, sorted.
	Objects []string
	// OtherNamespaces are the namespaces of workloads of that installation besides the install namespace, sorted.
	OtherNamespaces []string
}

// Error implements error.
func (e *UnmanagedError) Error() string {
	return "the cluster has an installation that is not ours: " + strings.Join(e.Objects, ", ")
}

// OwnershipError reports that the installation of the component on the cluster belongs to another owner.
type OwnershipError struct {
	// Owner is the namespace/name of the other resource. SameHub reports whether that resource is on the same hub.
	Owner   string
	SameHub bool
	// WorkAgent reports that a work agent applied the installation. Owner then is the AppliedManifestWork, and Objects name
	// the objects of the installation, sorted.
	WorkAgent bool
	Objects   []string
	// OtherNamespaces are the namespaces of workloads of the installation besides the install namespace, sorted.
	OtherNamespaces []string

	// formerAnchor is the anchor of a resource of the same name on another hub: the hub may be a recreated one.
	formerAnchor *Anchor
}

// Error implements error.
func (e *OwnershipError) Error() string { return "the installation belongs to " + e.Owner }

// Adoptable reports whether the installation may be adopted. The installation of another resource has to be removed by that
// resource. An installation in another namespace would stay beside the adopting installation.
func (e *OwnershipError) Adoptable() bool {
	return (e.WorkAgent || e.formerAnchor != nil) && len(e.OtherNamespaces) == 0
}

// IsAdoptable reports whether an error is about an installation that may be adopted.
func IsAdoptable(err error) bool {
	unmanaged, ownership := (*UnmanagedError)(nil), (*OwnershipError)(nil)
	return errors.As(err, &unmanaged) && len(unmanaged.OtherNamespaces) == 0 || errors.As(err, &ownership) && ownership.Adoptable()
}

// FormerAnchor returns the anchor of an *OwnershipError that may be adopted, or nil.
func FormerAnchor(err error) *Anchor {
	if ownership := (*OwnershipError)(nil); errors.As(err, &ownership) {
		return ownership.formerAnchor
	}
	return nil
}
