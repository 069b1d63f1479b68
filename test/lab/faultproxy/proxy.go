// Copyright Contributors to the Open Cluster Management project

package faultproxy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Fault serves a request instead of the Proxy. It may call forward, which sends the request to the API server and copies the
// answer to w. A Fault that panics with http.ErrAbortHandler ends the request without an answer.
type Fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// Proxy is an HTTPS server in front of one API server.
type Proxy struct {
	// URL and CA (PEM) are what a client's kubeconfig needs.
	URL string
	CA  []byte

	server  *httptest.Server
	forward http.Handler

	mu    sync.Mutex
	fault Fault
}

// Start starts a Proxy in front of the API server with that URL and CA (PEM). The Proxy forwards every request until Inject.
func Start(server string, ca []byte) (*Proxy, error) {
	upstream, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("cannot forward to %q: %w", server, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("cannot forward: the CA has no certificate")
	}
	p := &Proxy{forward: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
		ErrorLog:  log.New(io.Discard, "", 0), // requests that a client gives up
	}}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	p.URL = p.server.URL
	p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return p, nil
}

// Inject has the Fault serve all later requests; nil forwards the requests again.
func (p *Proxy) Inject(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault == nil {
		p.forward.ServeHTTP(w, r)
		return
	}
	fault(w, r, p.forward)
}

// Disconnect ends all connections of clients, and so all watches.
func (p *Proxy) Disconnect() { p.server.CloseClientConnections() }

// Close ends the Proxy.
func (p *Proxy) Close() { CloseServer(p.server) }

// CloseServer ends a server and the connections of its clients. A client may connect again until the listener is closed, and the server
// waits for every connection: therefore CloseServer ends connections until the server has closed.
func CloseServer(server *httptest.Server) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		server.Close()
	}()
	for {
		server.CloseClientConnections()
		select {
		case <-closed:
			return
		case <-time.After(closeRetry):
		}
	}
}

// closeRetry is the pause between two ends of the connections of a server that closes.
const closeRetry = 100 * time.Millisecond
