// Copyright Contributors to the Open Cluster Management project

package render

import (
	"errors"
	"fmt"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// Reason is the cause of a failed rendering in one word, fit for the reason of a condition.
type Reason string

const (
	// ReasonInvalidSpec means that the spec cannot be rendered; the message names the field.
	ReasonInvalidSpec Reason = api.ReasonInvalidSpec
	// ReasonValueMissing means that the spec uses values which the cluster lacks; the message names the values.
	ReasonValueMissing Reason = api.ReasonValueMissing
	// ReasonUnknownVersion means that spec.version is not bundled; the message lists the bundled versions.
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
	// ReasonEscalationNotPermitted means that the spec asks for more than Knative, which only resources of trusted
	// namespaces may do; the message names the field.
	ReasonEscalationNotPermitted Reason = api.ReasonEscalationNotPermitted
	// ReasonPatchFailed means that an entry of spec.patches does not apply.
	ReasonPatchFailed Reason = api.ReasonPatchFailed
	// ReasonTooLarge means that the spec is larger than a bound, or that the objects do not fit into a ManifestWork.
	ReasonTooLarge Reason = api.ReasonTooLarge
	// ReasonRenderTimeout means that the rendering took longer than maxRenderTime. The same content is not rendered again.
	ReasonRenderTimeout Reason = api.ReasonRenderTimeout
	// ReasonPending means that the rendering of the Install has not ended: the caller asks again. See IsPending.
	ReasonPending Reason = api.FaultRenderPending
	// ReasonReleasesMissing means that the program has no release manifests.
	ReasonReleasesMissing Reason = api.ReasonReleasesMissing
	// ReasonInternal means that the Knative Operator's functions failed in a way that the spec does not explain.
	ReasonInternal Reason = api.ReasonRenderFailed
)

// Error is the type of all errors of Decode, New and Render.
type Error struct {
	// Reason is stable and fit for conditions.
	Reason Reason
	// Message names the fault and the remedy, without times and without addresses of this machine.
	Message string
	// Err is the cause; nil without a cause.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// downloadRetry is the time until the next attempt to render a configuration whose manifests could not be downloaded.
const downloadRetry = time.Minute

// RetryAfter returns the time after which the same configuration may yield a bundle: after a failed download, and after an error of the machine.
// RetryAfter returns 0 for no error, and for an error that follows from the configuration.
func (e *Error) RetryAfter() time.Duration {
	if e != nil && (e.Reason == ReasonRemoteManifestUnavailable || isTransient(e)) {
		return downloadRetry
	}
	return 0
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of err: ReasonInternal for an error of another type, and the empty Reason for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ReasonInternal
}

// newError makes an Error; an operand of %w becomes the cause.
func newError(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Message: message.Shorten(err.Error(), maxMessageBytes), Err: errors.Unwrap(err)}
}

// reasonWithDefault returns the reason of an Error, and otherwise the given reason.
func reasonWithDefault(err error, otherwise Reason) Reason {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return otherwise
}

// IsPending reports whether RenderPromptly returned before the bundle was known. Callers ask again and report no failure.
func IsPending(err error) bool { return err != nil && ReasonOf(err) == ReasonPending }
