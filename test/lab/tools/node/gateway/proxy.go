// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

const idleConnections = 1000

// gateway forwards requests as the controller says.
type gateway struct {
	current  atomic.Pointer[configuration]
	draining atomic.Bool
	// servers are by port. Only the goroutine of the stream adds servers.
	servers       map[uint32]*http.Server
	plain, framed http.RoundTripper // HTTP/1.1 and HTTP/2
}

func newGateway() *gateway {
	var http2 http.Protocols
	http2.SetUnencryptedHTTP2(true)
	// Dials have no limit of time: a gateway that gets no processor exceeds a limit although its pods answer. The end of a request ends the dial.
	g := &gateway{
		servers: map[uint32]*http.Server{},
		plain:   &http.Transport{MaxIdleConnsPerHost: idleConnections, DisableCompression: true},
		framed:  &http.Transport{Protocols: &http2, DisableCompression: true},
	}
	g.current.Store(&configuration{})
	return g
}

// listen serves the ports that the gateway does not serve yet.
func (g *gateway) listen(c *configuration) {
	for port, routes := range c.listeners {
		if g.servers[port] != nil {
			continue
		}
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{
			Addr: fmt.Sprintf(":%d", port), Protocols: &protocols, ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.forward(port, w, r) }),
		}
		g.servers[port] = server
		log.Printf("port %d serves %s", port, routes)
		go func() { log.Printf("port %d: %v", port, server.ListenAndServe()) }()
	}
}

func (g *gateway) shutdown(ctx context.Context) error {
	var errs []error
	for _, s := range g.servers {
		errs = append(errs, s.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// forward answers one request.
func (g *gateway) forward(port uint32, w http.ResponseWriter, r *http.Request) {
	if g.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	c := g.current.Load()
	matched := findRoute(c.routes[c.listeners[port]], r)
	switch {
	case matched == nil:
		http.Error(w, "", http.StatusNotFound)
	case matched.GetRedirect() != nil:
		http.Redirect(w, r, "https://"+r.Host+r.URL.RequestURI(), http.StatusMovedPermanently)
	default:
		g.proxy(c, matched, w, r)
	}
}

func (g *gateway) proxy(c *configuration, matched *route.Route, w http.ResponseWriter, r *http.Request) {
	name, headers := drawCluster(matched.GetRoute())
	u := c.upstreams[name]
	if len(u.addresses) == 0 {
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		return
	}
	transport := g.plain
	if u.http2 && r.Header.Get("Upgrade") == "" {
		transport = g.framed
	}
	address := u.addresses[rand.IntN(len(u.addresses))]
	(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			rewrite(p, address, matched, headers)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Printf("%s%s to %s (%s): %v", r.Host, r.URL.Path, name, address, err)
			http.Error(w, "upstream connect error: "+err.Error(), http.StatusServiceUnavailable)
		},
	}).ServeHTTP(w, r)
}

func rewrite(p *httputil.ProxyRequest, address string, matched *route.Route, headers []*core.HeaderValueOption) {
	p.SetURL(&url.URL{Scheme: "http", Host: address})
	p.Out.Host = p.In.Host
	if host := matched.GetRoute().GetHostRewriteLiteral(); host != "" {
		p.Out.Host = host
	}
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
	for _, of := range [][]*core.HeaderValueOption{matched.GetRequestHeadersToAdd(), headers} {
		for _, h := range of {
			p.Out.Header.Set(h.GetHeader().GetKey(), h.GetHeader().GetValue())
		}
	}
}

// findRoute returns the first matching route of the virtual host that matches best; nil if there is none.
func findRoute(c *route.RouteConfiguration, r *http.Request) *route.Route {
	var best *route.VirtualHost
	quality := 0
	for _, v := range c.GetVirtualHosts() {
		for _, domain := range v.GetDomains() {
			if q := matchDomain(domain, r.Host); q > quality {
				best, quality = v, q
			}
		}
	}
	for _, candidate := range best.GetRoutes() {
		if strings.HasPrefix(r.URL.Path, candidate.GetMatch().GetPrefix()) && matchHeaders(candidate.GetMatch().GetHeaders(), r.Header) {
			return candidate
		}
	}
	return nil
}

// matchDomain returns how well a domain of a virtual host matches, as Envoy ranks the domains; 0 means not at all.
func matchDomain(domain, host string) int {
	const all, part, exact = 1, 2, 1 << 20
	switch {
	case domain == host:
		return exact
	case domain == "*":
		return all
	case strings.HasPrefix(domain, "*") && strings.HasSuffix(host, domain[1:]), strings.HasSuffix(domain, "*") && strings.HasPrefix(host, domain[:len(domain)-1]):
		return part + len(domain)
	}
	return 0
}

func matchHeaders(matchers []*route.HeaderMatcher, header http.Header) bool {
	for _, m := range matchers {
		if header.Get(m.GetName()) != m.GetStringMatch().GetExact() {
			return false
		}
	}
	return true
}

// drawCluster draws one of the clusters of a route by weight, and returns the headers that requests to the cluster get.
func drawCluster(action *route.RouteAction) (string, []*core.HeaderValueOption) {
	clusters := action.GetWeightedClusters().GetClusters()
	total := uint32(0)
	for _, c := range clusters {
		total += c.GetWeight().GetValue()
	}
	if total == 0 {
		return "", nil
	}
	drawn := rand.Uint32N(total)
	for _, c := range clusters {
		weight := c.GetWeight().GetValue()
		if drawn < weight {
			return c.GetName(), c.GetRequestHeadersToAdd()
		}
		drawn -= weight
	}
	return "", nil
}
