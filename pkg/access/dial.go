// Copyright Contributors to the Open Cluster Management project

package access

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// errAddressNotPermitted is the error of an address that the inventory does not permit.
var errAddressNotPermitted = errors.New("the inventory does not permit the address")

// dialContext returns the function that makes the connections of a transport. A proxy of the manager's own environment is
// the administrator's and not checked; every other address has to be permitted by the inventory.
func (e *endpoint) dialContext(limits *ClusterLimits) func(ctx context.Context, network, address string) (net.Conn, error) {
	guarded, free := e.guardedDialer(limits), &net.Dialer{Timeout: limits.DialTimeout}
	ours := e.environmentProxy()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == ours && address != e.serverAddress() {
			return free.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// guardedDialer checks the address of every attempt, after the name was looked up, so that no answer of a name server leads
// to an address that the inventory does not permit.
func (e *endpoint) guardedDialer(limits *ClusterLimits) *net.Dialer {
	return &net.Dialer{Timeout: limits.DialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		parsed, err := netip.ParseAddrPort(address)
		if err != nil || !e.dialableNetworks.Permit(parsed.Addr()) {
			return errAddressNotPermitted
		}
		return nil
	}}
}

// environmentProxy returns the address of the proxy that the manager's environment names for the server. The address is
// empty without a proxy, and where the profile names another proxy.
func (e *endpoint) environmentProxy() string {
	if e.proxy != nil {
		return ""
	}
	proxy, err := utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)(&http.Request{URL: e.base})
	if err != nil || proxy == nil {
		return ""
	}
	return addressOf(proxy)
}

// addressOf returns the host and port of a URL.
func addressOf(u *url.URL) string {
	ports := map[string]string{"http": "80", "socks5": "1080", "socks5h": "1080"}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[u.Scheme], "443"))
}
