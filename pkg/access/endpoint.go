// Copyright Contributors to the Open Cluster Management project

package access

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// maxCA is the number of bytes of a CA bundle; a bundle that a plugin can receive is far smaller (maxVariable).
const maxCA = 1 << 20

// endpoint is the checked address of a cluster.
type endpoint struct {
	// base is the server's address, perhaps with a path before that of every request.
	base     *url.URL
	provider string

	authorities        *x509.CertPool
	tlsServerName      string
	insecure           bool
	proxy              *url.URL
	disableCompression bool
	// dialableNetworks are the permitted networks, besides the public networks, of the dialled address: of the proxy where
	// the profile names a proxy, and of the server otherwise.
	dialableNetworks trust.Networks
}

// buildEndpoint checks the addresses and certificates of the profile. Nothing is sent.
func (spec *connectionSpec) buildEndpoint(opts *Options) (*endpoint, *fault) {
	const correct = "correct it in status.accessProviders"
	base, err := url.Parse(spec.Server)
	switch {
	case spec.Server == "":
		return nil, connectionFailed("the cluster manager has to publish the address of the API server", "access provider %q has no server", spec.Provider)
	case err != nil || base.Hostname() == "" || (base.Scheme != "https" && base.Scheme != "http"):
		return nil, connectionFailed(correct, "the server of access provider %q is not an address that begins with https://", spec.Provider)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, connectionFailed(correct, "the server of access provider %q has user, query or fragment in its address", spec.Provider)
	}
	e := &endpoint{
		base: base, provider: spec.Provider, tlsServerName: spec.TLSServerName, insecure: spec.Insecure,
		disableCompression: spec.DisableCompression, dialableNetworks: spec.Servers,
	}
	switch {
	case base.Scheme == "http" && !opts.AllowPlainHTTP:
		return nil, connectionFailed("publish an address that begins with https://, or set --allow-plain-http of the add-on's manager",
			"%s has no TLS, so that every host between hub and cluster could read the credential", e)
	case spec.Insecure && !opts.AllowInsecureTLS:
		return nil, connectionFailed("publish certificate-authority-data instead, or set --allow-insecure-tls of the add-on's manager",
			"%s is to be trusted without a look at its certificate (insecure-skip-tls-verify)", e)
	}
	if len(spec.CAData) > 0 {
		e.authorities = x509.NewCertPool()
		if len(spec.CAData) > maxCA || !e.authorities.AppendCertsFromPEM(spec.CAData) {
			return nil, connectionFailed("publish the certificates in PEM, encoded in base64 once",
				"certificate-authority-data of access provider %q holds no certificate", spec.Provider)
		}
	}
	if spec.ProxyURL != "" {
		e.dialableNetworks = spec.Proxies
		e.proxy, err = url.Parse(spec.ProxyURL)
		if err != nil || e.proxy.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, e.proxy.Scheme) {
			return nil, connectionFailed(correct, "proxy-url of access provider %q is not an address that begins with http, https or socks5", spec.Provider)
		}
	}
	return e, nil
}

// serverName returns the name that the server's certificate must have, shortened for messages.
func (e *endpoint) serverName() string {
	return message.Shorten(cmp.Or(e.tlsServerName, e.base.Hostname()), message.MaxName)
}

func (e *endpoint) tlsConfig(certificate *tls.Certificate) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: e.authorities, ServerName: e.tlsServerName,
		// Only with the permission of the administrator.
		InsecureSkipVerify: e.insecure,
	}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return config
}

// pingAfter is the silence of an HTTP/2 connection before a ping, and pingTimeout the time for the reply: both together are the time until the
// watches of a silent cluster end. The first connections, up to fastPingConnections, have fastPingAfter and fastPingTimeout: pings of a thousand
// connections each second would take the CPU that the manager has for clusters at rest. TCP sends a lost ping three times within fastPingTimeout.
const (
	pingAfter, pingTimeout         = 6 * time.Second, 3 * time.Second
	fastPingAfter, fastPingTimeout = time.Second, 2 * time.Second
	fastPingConnections            = 50
)

// pingTimes are the times of the pings of a connection.
type pingTimes struct {
	// after is the silence before a ping, and timeout the time for the reply.
	after, timeout time.Duration
}

// headerTable bounds the memory of the headers that HTTP/2 compresses by repetition, in bytes. The paths of the requests fill a table of the
// default size, which takes 21 kB of memory for each cluster.
const headerTable = 512

// newTransport returns a transport with a client certificate, or without a certificate, which sends a ping after silence.
func (e *endpoint) newTransport(limits *ClusterLimits, certificate *tls.Certificate, pings pingTimes) *http.Transport {
	transport := &http.Transport{
		DialContext: e.dialContext(limits), TLSClientConfig: e.tlsConfig(certificate), TLSHandshakeTimeout: limits.DialTimeout,
		ResponseHeaderTimeout: limits.AnswerTimeout, DisableCompression: e.disableCompression,
		MaxIdleConnsPerHost:    limits.InFlight,
		MaxResponseHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pings.after, PingTimeout: pings.timeout,
			MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connectionBuffer,
			MaxEncoderHeaderTableSize: headerTable, MaxDecoderHeaderTableSize: headerTable,
		},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				return e.explainProxyStatus(answer.StatusCode)
			}
			return nil
		},
	}
	if e.proxy != nil {
		transport.Proxy = http.ProxyURL(e.proxy)
	}
	// Defaults: the proxy of the environment without a proxy of the profile, and HTTP/2.
	return utilnet.SetTransportDefaults(transport)
}

// readTLSAlert returns the TLS alert with which the server refuses a client certificate. Since TLS 1.3 a server sends the
// alert only after the client has begun to send, and a client may notice the closed connection first.
func (e *endpoint) readTLSAlert(ctx context.Context, limits *ClusterLimits, certificate *tls.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, limits.DialTimeout)
	defer cancel()
	dialer := &tls.Dialer{NetDialer: e.guardedDialer(limits), Config: e.tlsConfig(certificate)}
	conn, err := dialer.DialContext(ctx, "tcp", e.serverAddress())
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1))
	return err
}

// serverAddress returns the host and port of the server.
func (e *endpoint) serverAddress() string {
	return addressOf(e.base)
}
