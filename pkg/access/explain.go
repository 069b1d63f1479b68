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
)

// explain says why a request got no answer.
func (e *endpoint) explain(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	for _, explain := range []func(error) *fault{e.explainProxy, e.explainTLS, e.explainSilence} {
		if f := explain(err); f != nil {
			return f.because(err)
		}
	}
	return e.silence("see whether something between hub and cluster breaks connections",
		"the connection to %s failed", e).because(err)
}

// silence is the fault of a server that does not answer.
func (e *endpoint) silence(next, format string, args ...any) *fault {
	f := connectionFailed(next, format, args...)
	f.silent = true
	return f
}

// explainProxy is for what happens between here and a proxy.
func (e *endpoint) explainProxy(err error) *fault {
	wrong, ok := errors.AsType[*net.OpError](err)
	if !ok || (wrong.Op != "proxyconnect" && wrong.Op != "socks connect") {
		return nil
	}
	return e.silence("check proxy-url in status.accessProviders, or the manager's HTTPS_PROXY and NO_PROXY, and the proxy itself",
		"the proxy before %s cannot be reached or does not connect", e)
}

// proxyRefused is for what an HTTP proxy answers instead of connecting.
func (e *endpoint) proxyRefused(status int) *fault {
	return e.silence("see what the proxy allows, and whether it wants a password in proxy-url of status.accessProviders",
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
	if wrong, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if wrong.Reason == x509.Expired {
			return connectionFailed("renew it there, and compare the clocks of hub and cluster",
				"the certificate of %s has expired, or is not valid yet", e)
		}
		return connectionFailed("let the cluster have a certificate for servers", "the certificate of %s is not valid", e)
	}
	if certificateRefused(err) {
		f := connectionFailed("see whether the cluster wants one, of which authority, and when that of the access provider expires",
			"%s refuses the client certificate, or that there is none", e)
		f.decided = true
		return f
	}
	if isTLS(err) {
		return connectionFailed("see what answers at the address", "%s cannot agree on TLS", e)
	}
	return nil
}

func isTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	return record || verification || isAlert(err, "local error") || isAlert(err, "remote error")
}

// certificateRefused tells that the server ended TLS because of the client's certificate.
func certificateRefused(err error) bool {
	return isAlert(err, "remote error") && strings.Contains(err.Error(), "certificate")
}

// isAlert tells that one side ended TLS with an alert. There is no type for these but their words.
func isAlert(err error, side string) bool {
	wrong, ok := errors.AsType[*net.OpError](err)
	return ok && wrong.Op == side
}

func (e *endpoint) explainSilence(err error) *fault {
	const address = "check the address in status.accessProviders, and that the cluster's API server runs"
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return e.silence("correct the address in status.accessProviders, or the DNS of the add-on's manager",
				"the name of %s does not exist", e)
		}
		return e.silence("check the DNS of the add-on's manager", "the name of %s cannot be looked up", e)
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return e.silence(address, "%s refuses connections", e)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return e.silence("check the network between hub and cluster", "there is no route to %s", e)
	case errors.Is(err, context.DeadlineExceeded), isNet && timeout.Timeout():
		return e.silence("check the cluster, and firewalls and network policies between hub and cluster",
			"%s does not answer in time", e)
	case brokenOff(err):
		return e.silence("see what answers at the address, and whether something between hub and cluster breaks connections",
			"%s closes the connection without an answer", e)
	}
	return nil
}

// brokenOff tells that the other side closed the connection. HTTP/2 has no type for one that was closed at once.
func brokenOff(err error) bool {
	return strings.Contains(err.Error(), "http2: client conn could not be established") || slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}, func(how error) bool {
		return errors.Is(err, how)
	})
}

// refused is the fault of a status that says something about the connection, nil for others.
func (e *endpoint) refused(status int) *fault {
	switch status {
	case http.StatusUnauthorized:
		f := connectionFailed("see that the access provider gives a credential of this cluster that was not revoked",
			"%s refuses the credential of access provider %q (401)", e, e.provider)
		f.decided = true
		return f
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return e.silence("check the cluster's API server, and what stands before it",
			"%s is not ready (HTTP status %d)", e, status)
	}
	return nil
}

// stale is a fault of a cluster that answered before.
func (f *fault) stale() *fault {
	if !f.silent {
		return f
	}
	out := *f
	out.reason = api.ReasonRemoteClusterStale
	return &out
}

// String names the server in messages.
func (e *endpoint) String() string { return fmt.Sprintf("server %q", hostOf(e.base)) }
