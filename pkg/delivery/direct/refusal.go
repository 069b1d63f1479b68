// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// BlockedError tells that nothing can be done on the cluster before somebody mends something there: it refuses what has to be
// read or written first. What it refuses of a bundle's objects does not block the others, and is in the Outcome.
type BlockedError struct {
	// Err says what was tried, and what the cluster says.
	Err error
}

// Error implements error.
func (e *BlockedError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *BlockedError) Unwrap() error { return e.Err }

// blockedBy makes a *BlockedError of a refusal. Other errors stay as they are.
func blockedBy(err error) error {
	if blocked := (*BlockedError)(nil); !isRefusal(err) || errors.As(err, &blocked) {
		return err
	}
	return &BlockedError{Err: err}
}

// isRefusal tells that a cluster has understood a request and will not do it, now or in a moment.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}
