// Copyright Contributors to the Open Cluster Management project

package remote

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// reserved are the networks that are not the public internet, beside those that netip.Addr knows about.
func reserved() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// guard refuses a connection to an address that is not public. It runs after name resolution, for every address that is
// tried, so that no answer of a name server leads inside.
type guard struct {
	allowed  []netip.Prefix
	reserved []netip.Prefix
}

func newGuard(networks []string) (guard, error) {
	g := guard{reserved: reserved()}
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return guard{}, fmt.Errorf("cannot parse allowed network %q: %w", n, err)
		}
		g.allowed = append(g.allowed, p)
	}
	return g, nil
}

// control is a net.Dialer's Control.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("cannot judge address %q: %w", address, err)
	}
	if !g.public(ap.Addr()) {
		return &forbiddenAddressError{addr: ap.Addr()}
	}
	return nil
}

func (g guard) public(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(g.allowed, contains) {
		return true
	}
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !slices.ContainsFunc(g.reserved, contains)
}

type forbiddenAddressError struct{ addr netip.Addr }

// Error implements error. The address stays out of it: a user must not learn the hub's network from a condition.
func (e *forbiddenAddressError) Error() string {
	return "its host resolves to an address that is not public"
}
