// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// BlockedError reports that an installation cannot proceed before a person fixes the cause: the cluster refuses a request that
// has to come before all other requests. A refused object of a bundle blocks no other object and causes no BlockedError.
type BlockedError struct {
	// Err names the request and the response of the cluster.
	Err error
}

// Error implements error.
func (e *BlockedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BlockedError) Unwrap() error { return e.Err }

// WrapRefusal returns a *BlockedError for a refusal, and any other error unchanged.
func WrapRefusal(err error) error {
	if blocked := (*BlockedError)(nil); !IsRefusal(err) || errors.As(err, &blocked) {
		return err
	}
	return &BlockedError{Err: err}
}

// IsUnavailable reports whether a request failed for a reason that is not the requested object: the cluster did not respond, or
// asks to try later.
func IsUnavailable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err))
}

// IsRefusal reports whether the cluster understood a request and will refuse the same request again, or exceeds a bound.
func IsRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || IsBoundError(err)
}
