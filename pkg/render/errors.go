// Copyright Contributors to the Open Cluster Management project

package render

import (
	"errors"
	"fmt"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Reason says in one word why a CR cannot be rendered. It is made to become the reason of a condition.
type Reason string

const (
	// ReasonInvalidSpec means that the spec cannot be rendered as it stands; the message names the field.
	ReasonInvalidSpec Reason = api.ReasonInvalidSpec
	// ReasonValueMissing means that the spec uses values which the cluster does not have; the message names them.
	ReasonValueMissing Reason = api.ReasonValueMissing
	// ReasonUnknownVersion means that spec.version is not bundled; the message lists what is.
	ReasonUnknownVersion Reason = api.ReasonUnknownVersion
	// ReasonVersionMigrationNotEligible means that the step from the installed version is too wide; the message lists
	// the versions that can be reached.
	ReasonVersionMigrationNotEligible Reason = api.ReasonNotEligible
	// ReasonIngressNotBundled means that the archive has no such ingress for the version.
	ReasonIngressNotBundled Reason = api.ReasonIngressNotBundled
	// ReasonIngressNotEnabled means that config-network names the class of an ingress that spec.ingress does not enable.
	ReasonIngressNotEnabled Reason = api.ReasonIngressNotEnabled
	// ReasonSourceNotBundled means that the archive has no such eventing source for the version.
	ReasonSourceNotBundled Reason = api.ReasonSourceNotBundled
	// ReasonSecurityGuardNotBundled means that the archive has no security guard for the version.
	ReasonSecurityGuardNotBundled Reason = api.ReasonSecurityGuardNotBundled
	// ReasonRemoteManifestRefused means that a URL of spec.manifests or spec.additionalManifests is not allowed.
	ReasonRemoteManifestRefused Reason = api.ReasonRemoteManifestRefused
	// ReasonRemoteManifestUnavailable means that an allowed URL could not be fetched; trying again later may help.
	ReasonRemoteManifestUnavailable Reason = api.ReasonRemoteManifestUnavailable
	// ReasonKindNotAllowed means that an object is of a kind that the add-on may not deliver.
	ReasonKindNotAllowed Reason = api.ReasonKindNotAllowed
	// ReasonPatchFailed means that an entry of spec.patches does not apply.
	ReasonPatchFailed Reason = api.ReasonPatchFailed
	// ReasonTooLarge means that the objects do not fit into a ManifestWork.
	ReasonTooLarge Reason = api.ReasonTooLarge
	// ReasonReleasesMissing means that the program has no release manifests.
	ReasonReleasesMissing Reason = api.ReasonReleasesMissing
	// ReasonInternal means that the Knative Operator's functions failed in a way that the spec does not explain.
	ReasonInternal Reason = api.ReasonRenderFailed
)

// Error is what Decode, New and Render return.
type Error struct {
	// Reason is stable and made for conditions.
	Reason Reason
	// Message says what is wrong and what to do, without times and without addresses of this machine.
	Message string
	// Err is the cause, if there is one.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf is the reason of err, ReasonInternal when err is of another type, and empty when err is nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ReasonInternal
}

// refuse makes an Error; an operand for %w becomes its cause.
func refuse(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Message: err.Error(), Err: errors.Unwrap(err)}
}
