// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// servicesProxy is an HTTP proxy on 127.0.0.1 that connects to Services of the hub by their names, and to nothing else. A program outside
// of pods reaches a Service through the proxy as a pod does through DNS and ClusterIPs.
type servicesProxy struct {
	server *http.Server
	// targets are addresses by host and port of a Service.
	targets map[string]string
	url     string
}

// startServicesProxy serves on the port until close.
func startServicesProxy(port string, targets map[string]string) (*servicesProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:"+port) //nolint:noctx // loopback
	if err != nil {
		return nil, fmt.Errorf("cannot listen for programs that reach Services of the hub: %w", err)
	}
	p := &servicesProxy{targets: targets, url: "http://127.0.0.1:" + port}
	p.server = &http.Server{Handler: http.HandlerFunc(p.connect), ReadHeaderTimeout: probeTimeout}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *servicesProxy) close() {
	if p != nil {
		_ = p.server.Close()
	}
}

func (p *servicesProxy) connect(w http.ResponseWriter, r *http.Request) {
	target, known := p.targets[r.Host]
	if r.Method != http.MethodConnect || !known {
		http.Error(w, "no such Service", http.StatusBadGateway)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "cannot take the connection", http.StatusInternalServerError)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if _, err := fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		_ = conn.Close()
		return
	}
	pipe(conn, target) //nolint:contextcheck // the connection outlives the request
}

// HubServicesProxy is the URL of an HTTP proxy that connects a program outside of pods to Services of the hub, for variable HTTPS_PROXY;
// the URL is empty without Options.ClusterProxy.
func (l *Lab) HubServicesProxy() string {
	if l.services == nil {
		return ""
	}
	return l.services.url
}
