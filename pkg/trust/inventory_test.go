// Copyright Contributors to the Open Cluster Management project

package trust

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func inventories(t *testing.T, list ...Inventory) Inventories {
	t.Helper()
	out, err := NewInventories(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// edge is the inventory of two clusters, each with a Secret of its own.
func edge(t *testing.T) Inventories {
	t.Helper()
	entry := func(name, server string) Inventory {
		return Inventory{Namespace: "edge", Providers: []string{"secretreader"}, Servers: []string{server}, Secrets: []string{name}}
	}
	return inventories(t, entry("edge-7", "edge-7.example.com"), entry("edge-8", "edge-8.example.com:6443"))
}

func TestPermit(t *testing.T) {
	own := inventories(t, OwnInventory("knative-addon"))
	wide := inventories(t, Inventory{
		Namespace: "edge", SecretNamespace: "vault", Providers: []string{"secretreader", "google"}, Servers: []string{"*.example.com", "10.1.0.0/16"},
		Proxies: []string{"proxy.example.com:3128"}, Secrets: []string{"edge-7"}, ExtensionKeys: []string{"audience"},
	})
	honest := Connection{Namespace: "edge", Provider: "secretreader", Server: "https://edge-7.example.com", Config: json.RawMessage(`{"clusterName":"edge-7"}`)}
	for name, tc := range map[string]struct {
		inventories Inventories
		change      func(*Connection)
		refusal     string
	}{
		"the honest profile":                      {inventories: edge(t)},
		"no inventory at all":                     {refusal: `namespace "edge" is not an inventory`},
		"a namespace that is no inventory":        {inventories: edge(t), change: func(c *Connection) { c.Namespace = "tenant" }, refusal: `namespace "tenant" is not an inventory`},
		"a provider that is not listed":           {inventories: edge(t), change: func(c *Connection) { c.Provider = "google" }, refusal: `does not list access provider "google"`},
		"a server that is not listed":             {inventories: edge(t), change: func(c *Connection) { c.Server = "https://evil.example.com" }, refusal: `does not list server "evil.example.com"`},
		"the Secret of another server":            {inventories: edge(t), change: func(c *Connection) { c.Config = json.RawMessage(`{"clusterName":"edge-8"}`) }, refusal: "Secret"},
		"another port of a server with a port":    {inventories: edge(t), change: func(c *Connection) { c.Server = "https://edge-8.example.com" }, refusal: "does not list server"},
		"a port of a server without a port":       {inventories: edge(t), change: func(c *Connection) { c.Server = "https://edge-7.example.com:6443" }},
		"a server in upper case with a final dot": {inventories: edge(t), change: func(c *Connection) { c.Server = "https://EDGE-7.example.com." }},
		"a path of a server":                      {inventories: edge(t), change: func(c *Connection) { c.Server = "https://edge-7.example.com/clusters/7" }},
		"a listed server as the user":             {inventories: edge(t), change: func(c *Connection) { c.Server = "https://edge-7.example.com@evil.example.org" }, refusal: `"evil.example.org"`},
		"a suffix of a listed server":             {inventories: edge(t), change: func(c *Connection) { c.Server = "https://edge-7.example.com.evil.org" }, refusal: "does not list server"},
		"a name that folds to a listed server":    {inventories: wide, change: func(c *Connection) { c.Server = "https://edge-7.example.ｃom" }, refusal: "does not list server"},
		"a name below a wildcard":                 {inventories: wide, change: func(c *Connection) { c.Server = "https://a.b.example.com" }},
		"the name of a wildcard itself":           {inventories: wide, change: func(c *Connection) { c.Server = "https://example.com" }, refusal: "does not list server"},
		"a name that ends as a wildcard":          {inventories: wide, change: func(c *Connection) { c.Server = "https://evilexample.com" }, refusal: "does not list server"},
		"an address of a network":                 {inventories: wide, change: func(c *Connection) { c.Server = "https://10.1.2.3:6443" }},
		"an address of a network in IPv6":         {inventories: wide, change: func(c *Connection) { c.Server = "https://[::ffff:10.1.2.3]:6443" }},
		"an address of another network":           {inventories: wide, change: func(c *Connection) { c.Server = "https://10.2.2.3:6443" }, refusal: "does not list server"},
		"a public address":                        {inventories: wide, change: func(c *Connection) { c.Server = "https://8.8.8.8" }, refusal: "does not list server"},
		"a proxy that is listed":                  {inventories: wide, change: func(c *Connection) { c.Proxy = "http://user:password@proxy.example.com:3128" }},
		"a proxy that is not listed":              {inventories: wide, change: func(c *Connection) { c.Proxy = "http://evil.example.com:3128" }, refusal: `does not list proxy "evil.example.com:3128"`},
		"a proxy where none is listed":            {inventories: edge(t), change: func(c *Connection) { c.Proxy = "socks5://edge-7.example.com" }, refusal: "does not list proxy"},
		"the namespace of the Secrets": {inventories: wide, change: func(c *Connection) {
			c.Config = json.RawMessage(`{"name":"edge-7","key":"kubeconfig","context":"x","namespace":"vault"}`)
		}},
		"another namespace":                      {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`{"name":"edge-7","namespace":"kube-system"}`) }, refusal: `is not "vault"`},
		"another name":                           {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`{"name":"victim"}`) }, refusal: "lists no Secret"},
		"a name that is no text":                 {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`{"name":["edge-7"]}`) }, refusal: "lists no Secret"},
		"a key in another case":                  {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`{"clusterName":"edge-7","clustername":"victim"}`) }, refusal: `key "clustername"`},
		"a key with a letter that folds":         {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`{"cluſterName":"victim"}`) }, refusal: "does not list key"},
		"a key that is listed":                   {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`{"clusterName":"edge-7","audience":"x"}`) }},
		"a key that is not listed":               {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`{"clusterName":"edge-7","secretRef":"victim"}`) }, refusal: `does not list key "secretRef"`},
		"a configuration that is no object":      {inventories: wide, change: func(c *Connection) { c.Config = json.RawMessage(`"victim"`) }, refusal: "is not an object"},
		"no configuration":                       {inventories: wide, change: func(c *Connection) { c.Config = nil }},
		"a private address in the own inventory": {inventories: own, change: func(c *Connection) { c.Namespace, c.Server = "knative-addon", "https://192.168.1.7:6443" }},
		"a public address in the own inventory":  {inventories: own, change: func(c *Connection) { c.Namespace, c.Server = "knative-addon", "https://8.8.8.8" }},
		"loopback in the own inventory":          {inventories: own, change: func(c *Connection) { c.Namespace, c.Server = "knative-addon", "https://127.0.0.1:6443" }, refusal: "does not list server"},
		"metadata in the own inventory":          {inventories: own, change: func(c *Connection) { c.Namespace, c.Server = "knative-addon", "http://169.254.169.254" }, refusal: "does not list server"},
		"an address in another notation":         {inventories: own, change: func(c *Connection) { c.Namespace, c.Server = "knative-addon", "http://0x7f.1" }, refusal: "does not list server"},
		"an address as a number":                 {inventories: own, change: func(c *Connection) { c.Namespace, c.Server = "knative-addon", "http://2130706433" }, refusal: "does not list server"},
	} {
		t.Run(name, func(t *testing.T) {
			c := honest
			if tc.change != nil {
				tc.change(&c)
			}
			_, refusal := tc.inventories.Permit(&c)
			switch {
			case tc.refusal == "" && refusal != nil:
				t.Errorf("refused: %+v", refusal)
			case tc.refusal != "" && (refusal == nil || !strings.Contains(refusal.What, tc.refusal) || refusal.Next == ""):
				t.Errorf("refusal is %+v, want %q", refusal, tc.refusal)
			case refusal != nil && strings.Contains(refusal.What+refusal.Next, "victim"):
				t.Errorf("the refusal repeats a value: %+v", refusal)
			}
		})
	}
}

// TestRefusalsAreShort holds that a Refusal repeats no more of a name than Kubernetes allows.
func TestRefusalsAreShort(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]Connection{
		"server": {Server: "https://" + long + ".example.org"},
		"proxy":  {Server: "https://edge-7.example.com", Proxy: "https://" + long + ".example.org"},
		"key":    {Server: "https://edge-7.example.com", Config: json.RawMessage(`{"` + long + `":""}`)},
	} {
		c.Namespace, c.Provider = "edge", "secretreader"
		_, refusal := edge(t).Permit(&c)
		if refusal == nil || !strings.Contains(refusal.What, `"`+long[:253]+`"`) {
			t.Errorf("%s: refusal is %+v", name, refusal)
		}
	}
}

func TestGrant(t *testing.T) {
	both := inventories(t,
		Inventory{Namespace: "edge", SecretNamespace: "vault", Providers: []string{"*"}, Servers: []string{"*.example.com", "10.2.0.0/16"}, Secrets: []string{"edge-7"}},
		Inventory{Namespace: "edge", SecretNamespace: "vault", Providers: []string{"*"}, Servers: []string{"edge-7.example.com", "10.1.0.7"}, Secrets: []string{"edge-7"}},
		Inventory{Namespace: "edge", SecretNamespace: "vault", Providers: []string{"*"}, Servers: []string{"*.example.com", "10.3.0.0/16"}, Secrets: []string{"edge-8"}})
	got, refusal := both.Permit(&Connection{Namespace: "edge", Provider: "x", Server: "https://edge-7.example.com", Config: json.RawMessage(`{"clusterName":"edge-7"}`)})
	if refusal != nil {
		t.Fatal(refusal)
	}
	want := Grant{Servers: parsePrefixes("10.1.0.7/32", "10.2.0.0/16"), SecretNamespace: "vault"}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("grant of the entries that permit the connection:\n%s", diff)
	}
}

func TestNetworksPermit(t *testing.T) {
	for address, permitted := range map[string]map[string]bool{
		"8.8.8.8":                {"": true, "10.0.0.0/8": true},
		"10.1.2.3":               {"": false, "10.0.0.0/8": true, "0.0.0.0/0": true},
		"::ffff:10.1.2.3":        {"": false, "10.0.0.0/8": true},
		"127.0.0.1":              {"": false, "0.0.0.0/0": false, "127.0.0.0/8": true, "127.0.0.1/32": true},
		"127.0.0.2":              {"127.0.0.1/32": false},
		"::1":                    {"": false, "::/0": false, "::1/128": true},
		"::":                     {"": false, "::/0": false},
		"0.0.0.0":                {"": false, "0.0.0.0/0": false},
		"169.254.169.254":        {"": false, "0.0.0.0/0": false, "169.254.0.0/16": true},
		"fd00:ec2::254":          {"": false, "fc00::/7": false, "fd00:ec2::254/128": true},
		"fd12::1":                {"": false, "fc00::/7": true},
		"fe80::1%eth0":           {"": false, "::/0": false, "fe80::/10": true},
		"224.0.0.1":              {"": false, "0.0.0.0/0": false},
		"255.255.255.255":        {"": false, "0.0.0.0/0": false},
		"64:ff9b::a9fe:a9fe":     {"": false},
		"2002:a9fe:a9fe::1":      {"": false},
		"2606:4700:4700::1111":   {"": true},
		"100.64.0.1":             {"": false, "100.64.0.0/10": true},
		"::169.254.169.254":      {"": false},
		"::ffff:169.254.169.254": {"": false, "0.0.0.0/0": false},
	} {
		for network, want := range permitted {
			var networks Networks
			if network != "" {
				networks = parsePrefixes(network)
			}
			if got := networks.Permit(netip.MustParseAddr(address)); got != want {
				t.Errorf("Permit(%s) with network %q = %t, want %t", address, network, got, want)
			}
		}
	}
	if (Networks)(nil).Permit(netip.Addr{}) {
		t.Error("no address is permitted")
	}
}

func TestNewInventories(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"not JSON":                     {"{", "cannot read a list of inventories"},
		"an unknown field":             {`{"inventories": [{"namespace": "edge", "secretNames": []}]}`, `unknown field "inventories[0].secretNames"`},
		"a wildcard for the namespace": {`{"inventories": [{"namespace": "*", "providers": ["x"], "servers": ["*"]}]}`, `inventories[0]: namespace: "*" is not the name of a namespace`},
		"no provider":                  {`{"inventories": [{"namespace": "edge", "servers": ["*"]}]}`, "inventories[0]: providers: at least one"},
		"no server":                    {`{"inventories": [{"namespace": "edge", "providers": ["x"]}]}`, "servers: at least one"},
		"a URL":                        {`{"inventories": [{"namespace": "edge", "providers": ["x"], "servers": ["https://a.example.com"]}]}`, `servers: "https://a.example.com" has to be a host`},
		"a wildcard in the middle":     {`{"inventories": [{"namespace": "edge", "providers": ["x"], "servers": ["a.*.com"]}]}`, `"a.*.com" has to be a host`},
		"bits of a host":               {`{"inventories": [{"namespace": "edge", "providers": ["x"], "servers": ["10.0.0.1/8"]}]}`, "write 10.0.0.0/8"},
		"a port that is none":          {`{"inventories": [{"namespace": "edge", "providers": ["x"], "proxies": ["a.example.com:0"], "servers": ["*"]}]}`, `proxies: "a.example.com:0" has to be a host`},
		"a Secret with a path":         {`{"inventories": [{"namespace": "edge", "providers": ["x"], "servers": ["*"], "secrets": ["a/b"]}]}`, `"a/b" is not the name of a Secret`},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := ParseInventories([]byte(tc.file))
			if err == nil {
				_, err = NewInventories(list)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}
