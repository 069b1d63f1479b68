// Copyright Contributors to the Open Cluster Management project

package register

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// EndpointOptions are decisions about the address that a ClusterProfile publishes.
type EndpointOptions struct {
	// Server replaces the server of the kubeconfig; empty keeps the server.
	Server string
	// AllowPlainHTTP and AllowInsecureTLS permit addresses that the manager refuses without the flags of the same names.
	AllowPlainHTTP, AllowInsecureTLS bool
}

// ReadEndpoint returns the address of the API server of a kubeconfig's current context as a ClusterProfile publishes the address:
// server, certificates of the CA, TLS server name and proxy. The error names the field of the kubeconfig that the manager would
// refuse, and the next step.
func ReadEndpoint(kubeconfig *clientcmdapi.Config, opts EndpointOptions) (clientcmdv1.Cluster, error) {
	current := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if current == nil {
		return clientcmdv1.Cluster{}, fmt.Errorf("context %q does not exist: name a context of the kubeconfig with --context", kubeconfig.CurrentContext)
	}
	cluster := kubeconfig.Clusters[current.Cluster]
	if cluster == nil {
		return clientcmdv1.Cluster{}, fmt.Errorf("context %q names cluster %q, which does not exist: correct the kubeconfig", kubeconfig.CurrentContext, current.Cluster)
	}
	out := clientcmdv1.Cluster{
		Server: cluster.Server, TLSServerName: cluster.TLSServerName, InsecureSkipTLSVerify: cluster.InsecureSkipTLSVerify,
		CertificateAuthorityData: cluster.CertificateAuthorityData, ProxyURL: cluster.ProxyURL, DisableCompression: cluster.DisableCompression,
	}
	if opts.Server != "" {
		out.Server = opts.Server
	}
	if len(out.CertificateAuthorityData) == 0 && cluster.CertificateAuthority != "" {
		data, err := os.ReadFile(cluster.CertificateAuthority)
		if err != nil {
			return clientcmdv1.Cluster{}, fmt.Errorf("cannot read certificate-authority of cluster %q: %w", current.Cluster, err)
		}
		out.CertificateAuthorityData = data
	}
	if err := checkEndpoint(&out, opts); err != nil {
		return clientcmdv1.Cluster{}, fmt.Errorf("cluster %q: %w", current.Cluster, err)
	}
	return out, nil
}

// checkEndpoint returns an error for an address that the manager would refuse.
func checkEndpoint(c *clientcmdv1.Cluster, opts EndpointOptions) error {
	server, err := url.Parse(c.Server)
	switch {
	case err != nil || server.Hostname() == "" || server.Scheme != "https" && server.Scheme != "http":
		return fmt.Errorf("server %q is not an address that begins with https://: correct the kubeconfig, or name the address with --server", c.Server)
	case server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return errors.New("server has a user, a query or a fragment in the address: correct the kubeconfig, or name the address with --server")
	case server.Scheme == "http" && !opts.AllowPlainHTTP:
		return fmt.Errorf("server %q has no TLS, so that every host between hub and cluster could read the token: name an address that begins with https:// "+
			"with --server, or set chart value multicluster.allowPlainHTTP and --allow-plain-http", c.Server)
	case c.InsecureSkipTLSVerify && !opts.AllowInsecureTLS:
		return errors.New("insecure-skip-tls-verify would send the token to any server that answers: write certificate-authority-data into the kubeconfig " +
			"(kubectl config set-cluster --certificate-authority=FILE --embed-certs), or set chart value multicluster.allowInsecureTLS and --allow-insecure-tls")
	}
	if proxy, err := url.Parse(c.ProxyURL); err != nil || proxy.User != nil {
		return errors.New("proxy-url is no address, or has a user, whose password every reader of the ClusterProfile would see: name a proxy without a user in the kubeconfig")
	}
	if block, _ := pem.Decode(c.CertificateAuthorityData); len(c.CertificateAuthorityData) > 0 && block == nil {
		return errors.New("certificate-authority-data holds no certificate in PEM: correct the kubeconfig")
	}
	return nil
}

// IsLoopback reports whether the server is an address or name of the machine itself, which means another machine for the
// manager on the hub.
func IsLoopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}
