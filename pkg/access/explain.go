// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// explainError returns the fault of a request without an answer.
func (e *endpoint) explainError(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	for _, explain := range []func(error) *fault{e.explainAddress, e.explainProxy, e.explainTLS, e.explainUnreachable} {
		if f := explain(err); f != nil {
			return f.withCause(err)
		}
	}
	return e.newUnreachableFault("see whether something between hub and cluster breaks connections",
		"the connection to %s failed", e).withCause(err)
}

// newUnreachableFault returns the fault of a server that does not answer.
func (e *endpoint) newUnreachableFault(next, format string, args ...any) *fault {
	f := connectionFailed(next, format, args...)
	f.unreachable = true
	return f
}

// explainAddress explains an address that was not dialled. The message does not contain the address: a name server of the
// hub's network may have returned the address.
func (e *endpoint) explainAddress(err error) *fault {
	if !errors.Is(err, errAddressNotPermitted) {
		return nil
	}
	f := notPermitted(&trust.Refusal{
		What: fmt.Sprintf("%s, or the proxy before the server, has an address that the inventory does not permit", e),
		Next: "ask the hub's administrator to list the network of the address (multicluster.inventories[] of the chart)",
	})
	f.isLocal = false
	return f
}

// explainProxy explains failures between the manager and a proxy.
func (e *endpoint) explainProxy(err error) *fault {
	failure, ok := errors.AsType[*net.OpError](err)
	if !ok || (failure.Op != "proxyconnect" && failure.Op != "socks connect") {
		return nil
	}
	return e.newUnreachableFault("check proxy-url in status.accessProviders, or the manager's HTTPS_PROXY and NO_PROXY, and the proxy itself",
		"the proxy before %s cannot be reached or does not connect", e)
}

// explainProxyStatus explains the status of an HTTP proxy that does not connect.
func (e *endpoint) explainProxyStatus(status int) *fault {
	return e.newUnreachableFault("see what the proxy allows, and whether it wants a password in proxy-url of status.accessProviders",
		"the proxy before %s refuses to connect to it with HTTP status %d", e, status)
}

func (e *endpoint) explainTLS(err error) *fault {
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(record.RecordHeader[:]) == "HTTP/" {
		return connectionFailed("correct the address in status.accessProviders", "%s does not speak TLS", e)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return connectionFailed("correct server or tls-server-name in status.accessProviders",
			"the certificate of %s is not for name %q", e, e.serverName())
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return connectionFailed("publish the authority that signed it in certificate-authority-data of status.accessProviders",
			"the certificate of %s is signed by an unknown authority", e)
	}
	if failure, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if failure.Reason == x509.Expired {
			return connectionFailed("renew it there, and compare the clocks of hub and cluster",
				"the certificate of %s has expired, or is not valid yet", e)
		}
		return connectionFailed("let the cluster have a certificate for servers", "the certificate of %s is not valid", e)
	}
	if isCertificateRefused(err) {
		f := connectionFailed("see whether the cluster wants one, of which authority, and when that of the access provider expires",
			"%s refuses the client certificate, or that there is none", e)
		f.isPersistent = true
		return f
	}
	if isTLSFailure(err) {
		return connectionFailed("see what answers at the address", "%s cannot agree on TLS", e)
	}
	return nil
}

func isTLSFailure(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	return record || verification || isAlert(err, "local error") || isAlert(err, "remote error")
}

// isCertificateRefused reports whether the server ended TLS because of the client certificate.
func isCertificateRefused(err error) bool {
	return isAlert(err, "remote error") && strings.Contains(err.Error(), "certificate")
}

// isAlert reports whether one side ended TLS with an alert. crypto/tls has no type for alerts, only texts.
func isAlert(err error, side string) bool {
	failure, ok := errors.AsType[*net.OpError](err)
	return ok && failure.Op == side
}

func (e *endpoint) explainUnreachable(err error) *fault {
	const address = "check the address in status.accessProviders, and that the cluster's API server runs"
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return e.newUnreachableFault("correct the address in status.accessProviders, or the DNS of the add-on's manager",
				"the name of %s does not exist", e)
		}
		return e.newUnreachableFault("check the DNS of the add-on's manager", "the name of %s cannot be looked up", e)
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return e.newUnreachableFault(address, "%s refuses connections", e)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return e.newUnreachableFault("check the network between hub and cluster", "there is no route to %s", e)
	case errors.Is(err, context.DeadlineExceeded), isNet && timeout.Timeout():
		f := e.newUnreachableFault("check the cluster, and firewalls and network policies between hub and cluster",
			"%s does not answer in time", e)
		f.isResponseTimeout = strings.Contains(err.Error(), "awaiting response headers") // net/http has no type for this timeout
		return f
	case isConnectionClosed(err):
		return e.newUnreachableFault("see what answers at the address, and whether something between hub and cluster breaks connections",
			"%s closes the connection without an answer", e)
	}
	return nil
}

// isConnectionClosed reports whether the other side closed the connection. net/http has no type for an HTTP/2 connection
// that was closed at once.
func isConnectionClosed(err error) bool {
	return strings.Contains(err.Error(), "http2: client conn could not be established") || slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}, func(how error) bool {
		return errors.Is(err, how)
	})
}

// explainStatus returns the fault of a status that says something about the connection, and nil for any other status.
func (e *endpoint) explainStatus(status int) *fault {
	switch status {
	case http.StatusUnauthorized:
		f := connectionFailed("see that the access provider gives a credential of this cluster that was not revoked",
			"%s refuses the credential of access provider %q (401)", e, e.provider)
		f.isPersistent = true
		return f
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return e.newUnreachableFault("check the cluster's API server, and what stands before it",
			"%s is not ready (HTTP status %d)", e, status)
	}
	return nil
}

// asStale returns the fault of a cluster that has answered before.
func (f *fault) asStale() *fault {
	if !f.unreachable {
		return f
	}
	out := *f
	out.reason = api.ReasonRemoteClusterStale
	return &out
}

// String names the server in messages.
func (e *endpoint) String() string { return fmt.Sprintf("server %q", hostOf(e.base)) }
