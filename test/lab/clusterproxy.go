// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

const (
	// ProxyNamespace and AccountsNamespace are the namespaces of cluster-proxy's and managed-serviceaccount's charts on the hub.
	ProxyNamespace    = "open-cluster-management-addon"
	AccountsNamespace = "open-cluster-management-managed-serviceaccount"
	// AccountNamespace is where managed clusters have the ServiceAccounts of ManagedServiceAccounts, and their agent.
	AccountNamespace = agentNamespace + "-addon"
	// tunnelNamespace is where managed clusters have the agents of cluster-proxy.
	tunnelNamespace = "open-cluster-management-cluster-proxy"
	// UserServer is the host and port of cluster-proxy's Service for users.
	UserServer = "cluster-proxy-addon-user." + ProxyNamespace + ":9092"
)

// withoutServers are arguments of programs of controller-runtime.
func withoutServers() []string {
	return []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}
}

// startClusterProxy installs the charts of cluster-proxy and managed-serviceaccount on the hub, and runs the containers of both add-ons on
// the hub and on the managed clusters as processes.
func (l *Lab) startClusterProxy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ports, err := l.portsFor(3)
	if err != nil {
		return err
	}
	server, agents := ports[0], ports[1]
	if l.services, err = startServicesProxy(ports[2], map[string]string{UserServer: "127.0.0.1:" + server}); err != nil {
		return err
	}
	err = all(
		func() error { return l.startAccounts(ctx) },
		func() error { return l.startProxy(ctx, server, agents) },
		func() error { return each(l.Managed, func(c *Cluster) error { return l.startProxyAgents(ctx, c) }) },
	)
	if err != nil {
		return err
	}
	return each(l.Managed, func(c *Cluster) error { return l.awaitTunnel(ctx, c, server) })
}

// startAccounts installs managed-serviceaccount on the hub, and runs its manager.
func (l *Lab) startAccounts(ctx context.Context) error {
	err := l.installChart(ctx, l.Bin.Path("managed-serviceaccount-files"), "managed-serviceaccount", AccountsNamespace,
		"featureGates.clusterProfileCredSyncer=true")
	if err != nil {
		return err
	}
	return l.startContainer(ctx, container{
		cluster: l.Hub, component: "managed-serviceaccount-manager", namespace: AccountsNamespace,
		deployment: "managed-serviceaccount-addon-manager", name: "manager", args: withoutServers(),
	})
}

// startProxy installs cluster-proxy on the hub, and runs its programs with a port for users and a port for agents.
func (l *Lab) startProxy(ctx context.Context, usersPort, agentsPort string) error {
	err := l.installChart(ctx, l.Bin.Path("cluster-proxy-files"), "cluster-proxy", ProxyNamespace,
		"enableServiceProxy=true", "userServer.enabled=true", "featureGates.clusterProfileAccessProvider=true",
		"proxyServer.entrypointAddress=127.0.0.1", "proxyServer.port="+agentsPort)
	if err != nil {
		return err
	}
	ports, err := l.portsFor(3)
	if err != nil {
		return err
	}
	return each([]container{
		{deployment: "cluster-proxy-addon-manager", name: "manager", args: append(withoutServers(), "--leader-elect=false")},
		{deployment: "cluster-proxy-addon-user", name: "controllers", args: []string{"--metrics-addr=0", "--health-probe-addr=0"}},
		{deployment: "cluster-proxy-addon-user", name: "user-server", args: []string{
			"--host=127.0.0.1", "--port=" + ports[0], "--server-port=" + usersPort,
		}},
		{deployment: "cluster-proxy", name: "proxy-server", args: []string{
			"--server-bind-address=127.0.0.1", "--server-port=" + ports[0], "--agent-bind-address=127.0.0.1", "--agent-port=" + agentsPort,
			"--health-bind-address=127.0.0.1", "--health-port=" + ports[1], "--admin-bind-address=127.0.0.1", "--admin-port=" + ports[2],
		}},
	}, func(c container) error { // a container waits for the Secrets that another one writes
		c.cluster, c.namespace, c.component = l.Hub, ProxyNamespace, "cluster-proxy-"+c.name
		return l.startContainer(ctx, c)
	})
}

// installChart installs a chart of an add-on below a directory on the hub.
func (l *Lab) installChart(ctx context.Context, dir, name, namespace string, values ...string) error {
	args := []string{"install", name, filepath.Join(dir, "charts", name), "--namespace", namespace, "--create-namespace"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	cmd := exec.CommandContext(ctx, l.Bin.Path("helm"), args...) //nolint:gosec // our own program
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Hub.Kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot install chart %s: %w: %s", name, err, out)
	}
	return nil
}

// startProxyAgents starts the containers of both add-ons on a managed cluster.
func (l *Lab) startProxyAgents(ctx context.Context, c *Cluster) error {
	ports, err := l.portsFor(2)
	if err != nil {
		return err
	}
	accounts := container{
		cluster: c, component: c.Name + "-managed-serviceaccount", namespace: AccountNamespace,
		deployment: "managed-serviceaccount-addon-agent", name: "addon-agent",
	}
	accounts.args = append(withoutServers(), "--spoke-kubeconfig="+accounts.file(accountDir+"/kubeconfig"))
	accounts.env = []string{"HUB_KUBECONFIG=" + accounts.file("/etc/hub/kubeconfig")}
	proxy := func(name string, args []string, env ...string) container {
		return container{
			cluster: c, component: c.Name + "-" + name, namespace: tunnelNamespace, deployment: "cluster-proxy-proxy-agent", name: name,
			args: args, env: env,
		}
	}
	// The addresses of the cluster's Services take the place of the pod's address, because loopback addresses need no network.
	const hosts = "LAB_HOSTS="
	address := c.serviceIPs.first()
	containers := []container{
		accounts,
		proxy("addon-agent", nil),
		proxy("service-proxy", nil, "POD_IP="+address, hosts+"kubernetes.default.svc="+address),
		proxy("proxy-agent", []string{
			"--health-server-host=127.0.0.1", "--health-server-port=" + ports[0], "--admin-bind-address=127.0.0.1", "--admin-server-port=" + ports[1],
		}, hosts+serviceProxyHost(c.Name)+"="+address),
	}
	return each(containers, func(of container) error { return l.startContainer(ctx, of) })
}

// each calls the function for all items at the same time and returns the first error.
func each[T any](items []T, do func(T) error) error {
	var g errgroup.Group
	for _, item := range items {
		g.Go(func() error { return do(item) })
	}
	return g.Wait()
}

// serviceProxyHost is the name that cluster-proxy gives to the service proxy of a cluster; the pod has the name in hostAliases.
func serviceProxyHost(cluster string) string {
	const prefix = "cluster-"
	return fmt.Sprintf(prefix+"%x", sha256.Sum256([]byte(cluster)))[:64-len(prefix)] + ".open-cluster-management.proxy"
}

// awaitTunnel waits until the API server of a managed cluster answers through the tunnel.
func (l *Lab) awaitTunnel(ctx context.Context, c *Cluster, port string) error {
	agent, err := l.procs.Get(c.Name + "-proxy-agent")
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(container{cluster: l.Hub, component: "cluster-proxy-user-server"}.file("/user-tls/tls.crt"))
	if err != nil {
		return fmt.Errorf("cannot read the certificate of cluster-proxy's user server: %w", err)
	}
	token, err := c.token(ctx, tunnelNamespace, "cluster-proxy")
	if err != nil {
		return err
	}
	ca := x509.NewCertPool()
	ca.AppendCertsFromPEM(certificate)
	client := &http.Client{Transport: bearer{token: token, next: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca, MinVersion: tls.VersionTLS12}}}}
	defer client.CloseIdleConnections()
	where := url.URL{Scheme: "https", Host: "127.0.0.1:" + port, Path: "/" + c.Name + "/readyz"}
	if err := agent.WaitReady(ctx, func(ctx context.Context) error { return getOK(ctx, client, where.String()) }); err != nil {
		return err
	}
	l.logf("%s: answers through cluster-proxy", c.Name)
	return nil
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}
