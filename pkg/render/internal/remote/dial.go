// Copyright Contributors to the Open Cluster Management project

package remote

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// dialPolicy refuses connections to addresses that are not public, besides those of the allowed networks. The policy judges
// every address after name resolution, so that no answer of a name server leads into the hub's network.
type dialPolicy struct {
	allowed  []netip.Prefix
	isPublic func(netip.Addr) bool
}

func newDialPolicy(networks []string, isPublic func(netip.Addr) bool) (dialPolicy, error) {
	p := dialPolicy{isPublic: isPublic}
	for _, n := range networks {
		prefix, err := netip.ParsePrefix(n)
		if err != nil {
			return dialPolicy{}, fmt.Errorf("cannot parse allowed network %q: %w", n, err)
		}
		p.allowed = append(p.allowed, prefix)
	}
	return p, nil
}

// controlDial is the Control of a net.Dialer.
func (p dialPolicy) controlDial(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("cannot judge address %q: %w", address, err)
	}
	if !p.permitsAddress(ap.Addr()) {
		return &forbiddenAddressError{addr: ap.Addr()}
	}
	return nil
}

func (p dialPolicy) permitsAddress(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p.allowed, func(allowed netip.Prefix) bool { return allowed.Contains(addr) }) || p.isPublic(addr)
}

type forbiddenAddressError struct{ addr netip.Addr }

// Error implements error. The address stays out of it: a user must not learn the hub's network from a condition.
func (e *forbiddenAddressError) Error() string {
	return "its host resolves to an address that is not public"
}
