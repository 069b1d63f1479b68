// Copyright Contributors to the Open Cluster Management project

package access

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// ErrNotAsked is the cause of an Error that repeats what went wrong last: the cluster is left alone until
// Session.RetryAt. The cause of the failure itself would have client-go try again at once, some ten times.
var ErrNotAsked = errors.New("the cluster failed before and is not asked again yet")

// Error is why a cluster cannot be reached, ready for a condition.
type Error struct {
	// Reason is a constant of package api.
	Reason string
	// Message names the ClusterProfile, what is wrong and what to do. It is stable and holds no credential.
	Message string
	// Err is the cause, where there is one. Its text may have addresses that change from one time to the next.
	Err error
}

// Error is the message alone: the cause adds nothing that is stable.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// fault is an Error before it is known for which profile: several may share a connection.
type fault struct {
	reason string
	// what is wrong and what to do next.
	what, next string
	err        error
	// silent tells that nobody answered.
	silent bool
	// decided tells that trying again at once would not help.
	decided bool
	// ours tells that it says nothing about the cluster.
	ours bool
}

func (f *fault) Error() string { return f.what + "; " + f.next }

func (f *fault) Unwrap() error { return f.err }

// of is the Error for a profile.
func (f *fault) of(profile types.NamespacedName) *Error {
	return &Error{Reason: f.reason, Message: fmt.Sprintf("ClusterProfile %s: %s", profile, f), Err: f.err}
}

// again is the fault of a request that is not sent because of it.
func (f *fault) again() *fault {
	out := *f
	out.err, out.ours = ErrNotAsked, true
	return &out
}

// because keeps the cause.
func (f *fault) because(err error) *fault {
	f.err = err
	return f
}

// providerFailed is a fault of an access provider. One that could not give a credential is not asked again at once:
// starting a process is dear, and its answer will be the same.
func providerFailed(next, format string, args ...any) *fault {
	return &fault{reason: api.ReasonAccessProviderFailed, what: fmt.Sprintf(format, args...), next: next, decided: true}
}

// connectionFailed is a fault of what a profile says, or of the cluster there.
func connectionFailed(next, format string, args ...any) *fault {
	return &fault{reason: api.ReasonRemoteClientCreationFailed, what: fmt.Sprintf(format, args...), next: next}
}

// closed is the fault of everything after Close.
func closed() *fault {
	return &fault{
		reason: api.ReasonClusterProviderClosed, what: "the add-on's manager is stopping", next: "the next manager goes on",
		ours: true,
	}
}

// replaced is the fault of a Session whose profile, access provider or plugin is not what it was made from any more.
func replaced() *fault {
	return &fault{
		reason: api.ReasonRemoteClusterStale,
		what:   "the ClusterProfile, its access provider or the plugin changed or went away while the connection was in use",
		next:   "nothing to do, the next attempt uses what is there then",
		ours:   true,
	}
}
