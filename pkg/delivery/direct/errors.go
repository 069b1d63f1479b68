// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"fmt"
)

// ErrNothingInstalled reports that the cluster has no object of the installation to remove.
var ErrNothingInstalled = errors.New("the cluster has no object of the installation")

// ExistingNamespaceError reports that the cluster had the install namespace before, and that SyncOptions require a new one.
// Sync has written nothing.
type ExistingNamespaceError struct{ Namespace string }

// Error implements error.
func (e *ExistingNamespaceError) Error() string {
	return fmt.Sprintf("the cluster had namespace %q before", e.Namespace)
}
