// Copyright Contributors to the Open Cluster Management project

package access

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// ErrNotAsked is the cause of an Error that repeats the last failure: no request is sent to the cluster until
// Session.RetryAt. With the cause of the failure itself, client-go would retry at once, about ten times.
var ErrNotAsked = errors.New("the cluster failed before and is not asked again yet")

// Error explains, for a condition, why a cluster cannot be reached.
type Error struct {
	// Reason is a constant of package api.
	Reason string
	// Message names the ClusterProfile, the problem and the next step. The text is stable and contains no credential.
	Message string
	// Err is the cause; nil without a cause. The text of the cause may contain addresses that change from one attempt to
	// the next.
	Err error
}

// Error returns the message without the text of the cause, which is not stable.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fault is an Error without a profile: several profiles may share a connection.
type fault struct {
	reason string
	// problem and nextStep are the two parts of the message.
	problem, nextStep string
	err               error
	// unreachable reports whether no server answered.
	unreachable bool
	// isPersistent reports whether an immediate retry would fail again.
	isPersistent bool
	// isResponseTimeout reports whether an answer did not begin in time, on a connection that works.
	isResponseTimeout bool
	// isLocal reports whether the fault says nothing about the cluster.
	isLocal bool
}

func (f *fault) Error() string { return f.problem + "; " + f.nextStep }

func (f *fault) Unwrap() error { return f.err }

// forProfile returns the Error for a profile.
func (f *fault) forProfile(profile types.NamespacedName) *Error {
	return &Error{Reason: f.reason, Message: fmt.Sprintf("ClusterProfile %s: %s", profile, f), Err: f.err}
}

// asNotAsked returns the fault of a request that the circuit breaker turns away because of this fault.
func (f *fault) asNotAsked() *fault {
	out := *f
	out.err, out.isLocal = ErrNotAsked, true
	return &out
}

// withCause keeps the cause.
func (f *fault) withCause(err error) *fault {
	f.err = err
	return f
}

// providerFailed returns the fault of an access provider. A failed plugin does not run again at once: a process is
// expensive, and the result would be the same.
func providerFailed(next, format string, args ...any) *fault {
	return &fault{reason: api.ReasonAccessProviderFailed, problem: fmt.Sprintf(format, args...), nextStep: next, isPersistent: true}
}

// notPermitted returns the fault of a connection that the administrator's inventories do not permit. Nothing was sent and
// no plugin ran.
func notPermitted(no *trust.Refusal) *fault {
	return &fault{reason: api.ReasonReferenceNotPermitted, problem: no.What, nextStep: no.Next, isPersistent: true, isLocal: true}
}

// connectionFailed returns a fault of the profile's settings or of the cluster.
func connectionFailed(next, format string, args ...any) *fault {
	return &fault{reason: api.ReasonRemoteClientCreationFailed, problem: fmt.Sprintf(format, args...), nextStep: next}
}

// closedFault returns the fault of every request after Close. No resource reports the fault: a manager that stops writes no status.
func closedFault() *fault {
	return &fault{
		reason: api.ReasonRemoteClusterStale, problem: "the connection was closed", nextStep: "no action is needed: the next attempt connects again",
		isLocal: true,
	}
}

// replacedFault returns the fault of a Session whose profile, access provider or plugin has changed.
func replacedFault() *fault {
	return &fault{
		reason:   api.ReasonRemoteClusterStale,
		problem:  "the ClusterProfile, its access provider or the plugin changed or went away while the connection was in use",
		nextStep: "no action is needed: the next attempt uses the new settings",
		isLocal:  true,
	}
}
