// Copyright Contributors to the Open Cluster Management project

package trust

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// endpoints are parsed servers or proxies of an Inventory.
type endpoints struct {
	hosts     []hostPort
	addresses []addressPort
	// networks are the networks of addresses.
	networks Networks
}

// hostPort is a host, perhaps with a leading wildcard; an empty port is every port.
type hostPort struct{ host, port string }

func (h hostPort) matchesHost(name, port string) bool {
	if h.port != "" && h.port != port {
		return false
	}
	if suffix, wildcard := strings.CutPrefix(h.host, Everything); wildcard {
		return strings.HasSuffix(name, suffix) && len(name) > len(suffix)
	}
	return name == h.host
}

// addressPort is a network, perhaps of a single address; an empty port is every port.
type addressPort struct {
	network netip.Prefix
	port    string
}

func (a addressPort) matchesAddress(addr netip.Addr, port string) bool {
	return (a.port == "" || a.port == port) && Networks{a.network}.Permit(addr) && a.network.Contains(addr)
}

func parseEndpoints(field string, list []string) (endpoints, error) {
	var out endpoints
	var wrong []error
	for _, text := range list {
		if err := out.add(text); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %q %w", field, text, err))
		}
	}
	return out, errors.Join(wrong...)
}

var errEndpoint = errors.New(`has to be a host (api.example.com), a wildcard (*.example.com or *), an address, each perhaps with a port, or a network (10.0.0.0/8)`)

func (e *endpoints) add(text string) error {
	if network, err := netip.ParsePrefix(text); err == nil {
		return e.addNetwork(network, "")
	}
	host, port := text, ""
	if _, err := netip.ParseAddr(text); err != nil && strings.Contains(text, ":") {
		if host, port, err = net.SplitHostPort(text); err != nil {
			return errEndpoint
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errEndpoint
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = unmapAddress(addr)
		return e.addNetwork(netip.PrefixFrom(addr, addr.BitLen()), port)
	}
	name := strings.ToLower(host)
	if suffix, wildcard := strings.CutPrefix(name, "*."); name != Everything && (!wildcard || !hostName(suffix)) && !hostName(name) {
		return errEndpoint
	}
	e.hosts = append(e.hosts, hostPort{host: name, port: port})
	return nil
}

func (e *endpoints) addNetwork(network netip.Prefix, port string) error {
	if network.Masked() != network {
		return fmt.Errorf("has bits of a host; write %s", network.Masked())
	}
	if network.Addr().Is4In6() {
		return errors.New("is an IPv4 network in the notation of IPv6; write the IPv4 network")
	}
	e.addresses = append(e.addresses, addressPort{network: network, port: port})
	e.networks = append(e.networks, network)
	return nil
}

// hostName reports whether a text is the name of a host in lower case ASCII. A name whose last label is a number is
// refused: some resolvers read such a name as an address.
func hostName(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err != nil && len(validation.IsDNS1123Subdomain(name)) == 0
}

// Networks are non-public networks whose addresses may be dialled.
type Networks []netip.Prefix

// privateNetworks returns the private networks of clusters.
func privateNetworks() []string {
	return []string{"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"}
}

// reservedNetworks returns the networks that are neither private nor part of the public internet. Some addresses in these
// networks carry an arbitrary IPv4 address.
func reservedNetworks() []netip.Prefix {
	return parsePrefixes("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10")
}

// specialNetworks returns the networks of the hub's own host and of the host's neighbours, such as the metadata service of
// a cloud at 169.254.169.254. Only a network within a special network permits an address of the special network: 0.0.0.0/0
// does not.
func specialNetworks() []netip.Prefix {
	return parsePrefixes("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "fe80::/10", "ff00::/8", "fd00:ec2::254/128")
}

func parsePrefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// Permit reports whether an address may be dialled: a public address, or an address of one of the networks.
func (n Networks) Permit(addr netip.Addr) bool {
	addr = unmapAddress(addr)
	if !addr.IsValid() {
		return false
	}
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	special := specialNetworks()
	if i := slices.IndexFunc(special, contains); i >= 0 {
		return slices.ContainsFunc(n, func(p netip.Prefix) bool {
			return p.Contains(addr) && p.Bits() >= special[i].Bits()
		})
	}
	if slices.ContainsFunc(n, contains) {
		return true
	}
	return IsPublic(addr)
}

// IsPublic reports whether an address belongs to the public internet.
func IsPublic(addr netip.Addr) bool {
	addr = unmapAddress(addr)
	notPublic := slices.Concat(specialNetworks(), parsePrefixes(privateNetworks()...), reservedNetworks())
	return addr.IsGlobalUnicast() && !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// joinNetworks returns both lists, sorted and each network once.
func (n Networks) joinNetworks(more Networks) Networks {
	out := slices.Concat(n, more)
	slices.SortFunc(out, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// unmapAddress removes the zone, and the notation of IPv6 from an IPv4 address.
func unmapAddress(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
