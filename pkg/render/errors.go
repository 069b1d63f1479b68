// Copyright Contributors to the Open Cluster Management project

package render

import (
	"errors"
	"fmt"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// Reason is the cause of a failed rendering in one word, fit for the reason of a condition. Package api has the reasons.
type Reason string

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
	if e != nil && (e.Reason == api.ReasonRemoteManifestUnavailable || isTransient(e)) {
		return downloadRetry
	}
	return 0
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of err: api.ReasonRenderFailed for an error of another type, and the empty Reason for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return api.ReasonRenderFailed
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
func IsPending(err error) bool { return err != nil && ReasonOf(err) == api.FaultRenderPending }
