// Copyright Contributors to the Open Cluster Management project

package trust

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	kubejson "sigs.k8s.io/json"
)

// Everything in a list of an Inventory permits every value of that list.
const Everything = "*"

// Inventory is the administrator's decision about the ClusterProfiles of one namespace: the clusters that the add-on
// connects to, and the credentials that access providers may fetch. A namespace may have several entries. An entry permits
// a connection only as a whole, so that an entry per cluster binds a Secret to a server.
type Inventory struct {
	// Namespace is the namespace of the ClusterProfiles.
	Namespace string `json:"namespace"`
	// Providers are names of access providers.
	Providers []string `json:"providers"`
	// Servers are the API servers that a ClusterProfile may name: hosts, hosts with a leading "*.", addresses, each with
	// or without a port, and networks (CIDR). Everything is every host; addresses that are not public need a network.
	Servers []string `json:"servers"`
	// Proxies are the hosts, addresses and networks that proxy-url of a ClusterProfile may name; none by default.
	Proxies []string `json:"proxies,omitempty"`
	// Secrets are names of the Secrets that a ClusterProfile may name in its configuration for a plugin.
	Secrets []string `json:"secrets,omitempty"`
	// SecretNamespace is the namespace of the Secrets; empty is the namespace of the ClusterProfiles.
	SecretNamespace string `json:"secretNamespace,omitempty"`
	// ExtensionKeys are further keys that a ClusterProfile may have in its configuration for a plugin.
	ExtensionKeys []string `json:"extensionKeys,omitempty"`
}

// OwnInventory returns the inventory of the add-on's own namespace: every access provider, and every server of a public or
// private network. Only administrators of the hub write to the namespace.
func OwnInventory(namespace string) Inventory {
	servers := append([]string{Everything}, privateNetworks()...)
	everything := []string{Everything}
	return Inventory{
		Namespace: namespace, Providers: everything, Servers: servers, Proxies: servers, Secrets: everything, ExtensionKeys: everything,
	}
}

// Inventories are all inventories of a hub. The zero value has none.
type Inventories struct{ entries []entry }

// entry is an Inventory whose servers and proxies were parsed.
type entry struct {
	Inventory
	servers, proxies endpoints
}

// ParseInventories reads the file of inventories. The error lists every problem of the file.
func ParseInventories(data []byte) ([]Inventory, error) {
	var file struct {
		Inventories []Inventory `json:"inventories"`
	}
	wrong, err := kubejson.UnmarshalStrict(data, &file)
	if err = errors.Join(append([]error{err}, wrong...)...); err != nil {
		return nil, fmt.Errorf("cannot read a list of inventories: %w", err)
	}
	return file.Inventories, nil
}

// NewInventories checks the inventories. The error names the entry and the field.
func NewInventories(list []Inventory) (Inventories, error) {
	var out Inventories
	var wrong []error
	for i, in := range list {
		in.SecretNamespace = cmp.Or(in.SecretNamespace, in.Namespace)
		e := entry{Inventory: in}
		var errs [2]error
		e.servers, errs[0] = parseEndpoints("servers", in.Servers)
		e.proxies, errs[1] = parseEndpoints("proxies", in.Proxies)
		if err := errors.Join(in.checkFields(), errs[0], errs[1]); err != nil {
			wrong = append(wrong, fmt.Errorf("inventories[%d]: %w", i, err))
		}
		out.entries = append(out.entries, e)
	}
	if err := errors.Join(wrong...); err != nil {
		return Inventories{}, err
	}
	return out, nil
}

func (in *Inventory) checkFields() error {
	var wrong []error
	for field, namespace := range map[string]string{"namespace": in.Namespace, "secretNamespace": in.SecretNamespace} {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			wrong = append(wrong, fmt.Errorf("%s: %q is not the name of a namespace", field, namespace))
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if len(in.Providers) == 0 {
		wrong = append(wrong, errors.New("providers: at least one access provider is needed"))
	}
	if len(in.Servers) == 0 {
		wrong = append(wrong, errors.New("servers: at least one host, address or network is needed"))
	}
	for _, name := range in.Secrets {
		if name != Everything && len(validation.IsDNS1123Subdomain(name)) > 0 {
			wrong = append(wrong, fmt.Errorf("secrets: %q is not the name of a Secret", name))
		}
	}
	return errors.Join(wrong...)
}

// Namespaces returns the namespaces of the inventories, sorted.
func (i Inventories) Namespaces() []string {
	var out []string
	for _, e := range i.entries {
		out = append(out, e.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Contains reports whether the namespace is an inventory.
func (i Inventories) Contains(namespace string) bool {
	return slices.ContainsFunc(i.entries, func(e entry) bool { return e.Namespace == namespace })
}

// PermitsProvider reports whether ClusterProfiles of the namespace may use an access provider.
func (i Inventories) PermitsProvider(namespace, provider string) bool {
	return slices.ContainsFunc(i.entries, func(e entry) bool { return e.permitsProvider(namespace, provider) })
}

func (e *entry) permitsProvider(namespace, provider string) bool {
	return e.Namespace == namespace && isListed(e.Providers, provider)
}

// Connection is the server, proxy and plugin configuration that a ClusterProfile asks for.
type Connection struct {
	Namespace, Provider string
	// Server and Proxy are URLs; Proxy may be empty.
	Server, Proxy string
	// Config is the configuration for the plugin, and nil without one.
	Config json.RawMessage
}

// Grant is the permission of the inventories for a Connection.
type Grant struct {
	// Servers and Proxies are the non-public networks that may be dialled.
	Servers, Proxies Networks
	// SecretNamespace is the namespace of the Secrets that the plugin reads.
	SecretNamespace string
}

// Refusal names the part of a Connection that the inventories do not permit, and the next step. A Refusal repeats at most 253
// characters of a name that the author of the ClusterProfile chose: no name of Kubernetes is longer.
type Refusal struct {
	What, Next string
	// checked is how many parts of the connection the entry permits.
	checked int
}

// Permit returns the grant of the entries that permit the connection, or why none does.
func (i Inventories) Permit(c *Connection) (Grant, *Refusal) {
	var grant Grant
	var permitted bool
	refusal := NoInventory(c.Namespace)
	for n := range i.entries {
		e := &i.entries[n]
		if e.Namespace != c.Namespace {
			continue
		}
		if no := e.refuseConnection(c); no != nil {
			// The entry that permits most of the connection is the entry that the author of the ClusterProfile meant.
			if no.checked >= refusal.checked {
				refusal = no
			}
			continue
		}
		if !permitted {
			grant.SecretNamespace = e.SecretNamespace
		}
		permitted = true
		if e.SecretNamespace == grant.SecretNamespace {
			grant.Servers, grant.Proxies = grant.Servers.joinNetworks(e.servers.networks), grant.Proxies.joinNetworks(e.proxies.networks)
		}
	}
	if !permitted {
		return Grant{}, refusal
	}
	return grant, nil
}

// NoInventory returns the refusal of a namespace that the administrator has not listed.
func NoInventory(namespace string) *Refusal {
	return &Refusal{
		What: fmt.Sprintf("namespace %q is not an inventory, so that the add-on connects to no cluster that a ClusterProfile there describes", namespace),
		Next: fmt.Sprintf("refer to a ClusterProfile in an inventory, or ask the hub's administrator to make namespace %q an inventory (multicluster.inventories of the chart)", namespace),
	}
}

// NoProvider returns the refusal of access providers that the inventories of a namespace do not list.
func NoProvider(namespace, providers string) *Refusal {
	return &Refusal{
		What: fmt.Sprintf("the inventory of namespace %q does not list access provider %s", namespace, providers),
		Next: "use another access provider, or ask the hub's administrator to list this access provider (multicluster.inventories[].providers of the chart)",
	}
}

// refuseConnection returns why the entry does not permit a connection, and nil where the entry does.
func (e *entry) refuseConnection(c *Connection) *Refusal {
	if !e.permitsProvider(c.Namespace, c.Provider) {
		return NoProvider(c.Namespace, fmt.Sprintf("%q", c.Provider))
	}
	if host, ok := e.servers.permitURL(c.Server); !ok {
		return &Refusal{
			checked: 1,
			What:    fmt.Sprintf("the inventory of namespace %q does not list server %.253q for access provider %q", c.Namespace, host, c.Provider),
			Next:    "correct server in status.accessProviders, or ask the hub's administrator to list the server (multicluster.inventories[].servers of the chart)",
		}
	}
	if host, ok := e.proxies.permitURL(c.Proxy); c.Proxy != "" && !ok {
		return &Refusal{
			checked: 2,
			What:    fmt.Sprintf("the inventory of namespace %q does not list proxy %.253q for access provider %q", c.Namespace, host, c.Provider),
			Next:    "remove proxy-url from status.accessProviders, or ask the hub's administrator to list the proxy (multicluster.inventories[].proxies of the chart)",
		}
	}
	no := e.refuseConfig(c)
	if no != nil {
		no.checked = 3
	}
	return no
}

// Keys of the configuration of the plugins of cluster-inventory-api and Open Cluster Management.
const (
	keyClusterName = "clusterName"
	keyName        = "name"
	keyNamespace   = "namespace"
)

// refuseConfig returns why the entry does not permit the configuration for the plugin. Plugins read keys in any case, so
// that a key which differs only in case from a checked key is refused.
func (e *entry) refuseConfig(c *Connection) *Refusal {
	if c.Config == nil || isListed(e.ExtensionKeys, Everything) && isListed(e.Secrets, Everything) {
		return nil
	}
	const correct = "correct the extension in status.accessProviders, or ask the hub's administrator to permit "
	var config map[string]any
	if json.Unmarshal(c.Config, &config) != nil {
		return &Refusal{
			What: fmt.Sprintf("the configuration for the plugin of access provider %q is not an object", c.Provider),
			Next: "correct the extension in status.accessProviders",
		}
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		value, _ := config[key].(string)
		switch {
		case key == keyClusterName || key == keyName:
			if !isListed(e.Secrets, value) {
				return &Refusal{
					What: fmt.Sprintf("the inventory of namespace %q lists no Secret with the name that key %q of the configuration for access provider %q has", c.Namespace, key, c.Provider),
					Next: correct + "the Secret for this server (multicluster.inventories[].secrets of the chart)",
				}
			}
		case key == keyNamespace:
			if value != e.SecretNamespace && !isListed(e.Secrets, Everything) {
				return &Refusal{
					What: fmt.Sprintf("key %q of the configuration for access provider %q is not %q, where the Secrets of the inventory are", key, c.Provider, e.SecretNamespace),
					Next: correct + "the namespace (multicluster.inventories[].secretNamespace of the chart)",
				}
			}
		case foldsToChecked(key) || key != "key" && key != "context" && !isListed(e.ExtensionKeys, key):
			return &Refusal{
				What: fmt.Sprintf("the inventory of namespace %q does not list key %.253q of the configuration for access provider %q", c.Namespace, key, c.Provider),
				Next: correct + "the key (multicluster.inventories[].extensionKeys of the chart)",
			}
		}
	}
	return nil
}

func foldsToChecked(key string) bool {
	return slices.ContainsFunc([]string{keyClusterName, keyName, keyNamespace}, func(checked string) bool { return strings.EqualFold(checked, key) })
}

// isListed reports whether the list has the value, or Everything.
func isListed(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, Everything)
}

// permitURL returns the host of a URL for messages, and whether a ClusterProfile may name the host. A URL without a host
// is not refused here: no connection can be made from such a URL, and the error of the URL says more.
func (e *endpoints) permitURL(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return "", true
	}
	return u.Host, e.permitHost(u.Hostname(), portOf(u))
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	switch u.Scheme {
	case "http":
		return "80"
	case "socks5", "socks5h":
		return "1080"
	}
	return "443"
}

// permitHost reports whether a ClusterProfile may name the host. The address of a name is checked when the connection is
// made.
func (e *endpoints) permitHost(host, port string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = unmapAddress(addr)
		if slices.ContainsFunc(e.addresses, func(p addressPort) bool { return p.matchesAddress(addr, port) }) {
			return true
		}
		return slices.ContainsFunc(e.hosts, func(h hostPort) bool { return h.host == Everything }) && Networks(nil).Permit(addr)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	return hostName(name) && slices.ContainsFunc(e.hosts, func(h hostPort) bool { return h.matchesHost(name, port) })
}
