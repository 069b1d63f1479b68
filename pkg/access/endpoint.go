// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// maxCA is far more than a bundle of authorities needs that a plugin can be told (maxVariable).
const maxCA = 1 << 20

// endpoint is where a cluster is, checked.
type endpoint struct {
	// base is the server's address, perhaps with a path before that of every request.
	base     *url.URL
	provider string

	authorities        *x509.CertPool
	tlsServerName      string
	insecure           bool
	proxy              *url.URL
	disableCompression bool
}

// endpoint checks what the profile says. Nothing is sent.
func (r *recipe) endpoint(opts *Options) (*endpoint, *fault) {
	const correct = "correct it in status.accessProviders"
	base, err := url.Parse(r.Server)
	switch {
	case r.Server == "":
		return nil, connectionFailed("the cluster manager has to publish the address of the API server", "access provider %q has no server", r.Provider)
	case err != nil || base.Hostname() == "" || (base.Scheme != "https" && base.Scheme != "http"):
		return nil, connectionFailed(correct, "the server of access provider %q is not an address that begins with https://", r.Provider)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, connectionFailed(correct, "the server of access provider %q has user, query or fragment in its address", r.Provider)
	}
	e := &endpoint{
		base: base, provider: r.Provider, tlsServerName: r.TLSServerName, insecure: r.Insecure,
		disableCompression: r.DisableCompression,
	}
	switch {
	case base.Scheme == "http" && !opts.AllowPlainHTTP:
		return nil, connectionFailed("publish an address that begins with https://, or set --allow-plain-http of the add-on's manager",
			"%s does without TLS, so that everyone between could read the credential", e)
	case r.Insecure && !opts.AllowInsecureTLS:
		return nil, connectionFailed("publish certificate-authority-data instead, or set --allow-insecure-tls of the add-on's manager",
			"%s is to be trusted without a look at its certificate (insecure-skip-tls-verify)", e)
	}
	if len(r.CAData) > 0 {
		e.authorities = x509.NewCertPool()
		if len(r.CAData) > maxCA || !e.authorities.AppendCertsFromPEM(r.CAData) {
			return nil, connectionFailed("publish the certificates in PEM, encoded in base64 once",
				"certificate-authority-data of access provider %q holds no certificate", r.Provider)
		}
	}
	if r.ProxyURL != "" {
		e.proxy, err = url.Parse(r.ProxyURL)
		if err != nil || e.proxy.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, e.proxy.Scheme) {
			return nil, connectionFailed(correct, "proxy-url of access provider %q is not an address that begins with http, https or socks5", r.Provider)
		}
	}
	return e, nil
}

// serverName is whom the certificate has to be for.
func (e *endpoint) serverName() string {
	if e.tlsServerName != "" {
		return e.tlsServerName
	}
	return e.base.Hostname()
}

func (e *endpoint) tlsConfig(certificate *tls.Certificate) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: e.authorities, ServerName: e.tlsServerName,
		// Only where the administrator allowed it.
		InsecureSkipVerify: e.insecure,
	}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return config
}

// pingAfter is how long a connection of HTTP/2 may be silent before it is asked for a sign of life, and pingTimeout how long
// that may take: together they are how long a watch of a cluster that is silent goes on.
const pingAfter, pingTimeout = 6 * time.Second, 3 * time.Second

// transport makes connections with a client certificate, or without one.
func (e *endpoint) transport(limits *ClusterLimits, certificate *tls.Certificate) *http.Transport {
	dialer := &net.Dialer{Timeout: limits.DialTimeout}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: e.tlsConfig(certificate), TLSHandshakeTimeout: limits.DialTimeout,
		ResponseHeaderTimeout: limits.AnswerTimeout, DisableCompression: e.disableCompression,
		MaxIdleConnsPerHost: limits.InFlight,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				return e.proxyRefused(answer.StatusCode)
			}
			return nil
		},
	}
	if e.proxy != nil {
		transport.Proxy = http.ProxyURL(e.proxy)
	}
	// Without a proxy of its own, that of the environment; and HTTP/2.
	return utilnet.SetTransportDefaults(transport)
}

// ask finds out why the server closes connections. Since TLS 1.3 a client is told of what is wrong with its certificate
// only after it has begun to send, and may notice the closed connection first.
func (e *endpoint) ask(ctx context.Context, limits *ClusterLimits, certificate *tls.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, limits.DialTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: e.tlsConfig(certificate)}).DialContext(ctx, "tcp", e.address())
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1))
	return err
}

// address is what to dial.
func (e *endpoint) address() string {
	port := e.base.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(e.base.Hostname(), port)
}
