// Copyright Contributors to the Open Cluster Management project

package register

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

const testCA = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"

func kubeconfigOf(cluster *clientcmdapi.Cluster) *clientcmdapi.Config {
	return &clientcmdapi.Config{
		CurrentContext: "edge", Contexts: map[string]*clientcmdapi.Context{"edge": {Cluster: "edge-7"}, "broken": {Cluster: "absent"}},
		Clusters: map[string]*clientcmdapi.Cluster{"edge-7": cluster},
	}
}

func TestReadEndpoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte(testCA), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cluster clientcmdapi.Cluster
		opts    EndpointOptions
		want    clientcmdv1.Cluster
	}{
		"every field that the manager knows is published": {
			clientcmdapi.Cluster{
				Server: "https://edge-7:6443", CertificateAuthorityData: []byte(testCA), TLSServerName: "api", ProxyURL: "socks5://proxy:1080", DisableCompression: true,
			},
			EndpointOptions{},
			clientcmdv1.Cluster{
				Server: "https://edge-7:6443", CertificateAuthorityData: []byte(testCA), TLSServerName: "api", ProxyURL: "socks5://proxy:1080", DisableCompression: true,
			},
		},
		"a file of certificates is read": {
			clientcmdapi.Cluster{Server: "https://edge-7", CertificateAuthority: file},
			EndpointOptions{},
			clientcmdv1.Cluster{Server: "https://edge-7", CertificateAuthorityData: []byte(testCA)},
		},
		"a server with a public certificate needs no CA": {
			clientcmdapi.Cluster{Server: "https://edge-7"}, EndpointOptions{}, clientcmdv1.Cluster{Server: "https://edge-7"},
		},
		"the manager may have another address": {
			clientcmdapi.Cluster{Server: "https://127.0.0.1:6443"},
			EndpointOptions{Server: "https://172.18.0.3:6443"},
			clientcmdv1.Cluster{Server: "https://172.18.0.3:6443"},
		},
		"plain http with the flag": {
			clientcmdapi.Cluster{Server: "http://edge-7"}, EndpointOptions{AllowPlainHTTP: true}, clientcmdv1.Cluster{Server: "http://edge-7"},
		},
		"insecure TLS with the flag": {
			clientcmdapi.Cluster{Server: "https://edge-7", InsecureSkipTLSVerify: true},
			EndpointOptions{AllowInsecureTLS: true},
			clientcmdv1.Cluster{Server: "https://edge-7", InsecureSkipTLSVerify: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadEndpoint(kubeconfigOf(&tc.cluster), tc.opts)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestReadEndpointRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		context string
		cluster clientcmdapi.Cluster
		want    []string
	}{
		"an unknown context":           {"prod", clientcmdapi.Cluster{Server: "https://edge-7"}, []string{`"prod"`, "--context"}},
		"a context without cluster":    {"broken", clientcmdapi.Cluster{Server: "https://edge-7"}, []string{`"absent"`, "correct the kubeconfig"}},
		"insecure TLS":                 {"edge", clientcmdapi.Cluster{Server: "https://edge-7", InsecureSkipTLSVerify: true}, []string{"insecure-skip-tls-verify", "certificate-authority-data", "--allow-insecure-tls"}},
		"plain http":                   {"edge", clientcmdapi.Cluster{Server: "http://edge-7"}, []string{"no TLS", "--allow-plain-http"}},
		"an address that is not a URL": {"edge", clientcmdapi.Cluster{Server: "edge-7:6443"}, []string{`"edge-7:6443"`, "--server"}},
		"a password in the address":    {"edge", clientcmdapi.Cluster{Server: "https://me:secret@edge-7"}, []string{"--server"}},
		"a password of the proxy":      {"edge", clientcmdapi.Cluster{Server: "https://edge-7", ProxyURL: "http://me:secret@proxy:3128"}, []string{"proxy-url", "without a user"}},
		"a CA that is not PEM":         {"edge", clientcmdapi.Cluster{Server: "https://edge-7", CertificateAuthorityData: []byte("AA==")}, []string{"PEM"}},
		"an absent file of the CA":     {"edge", clientcmdapi.Cluster{Server: "https://edge-7", CertificateAuthority: "/absent/ca.crt"}, []string{"/absent/ca.crt"}},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := kubeconfigOf(&tc.cluster)
			kubeconfig.CurrentContext = tc.context
			_, err := ReadEndpoint(kubeconfig, EndpointOptions{})
			checkError(t, err, tc.want...)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

func TestIsLoopback(t *testing.T) {
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://localhost:6443": true, "https://[::1]:6443": true, "https://10.0.0.1": false, "https://edge-7": false, "://": false,
	} {
		if got := IsLoopback(server); got != want {
			t.Errorf("%s: %t", server, got)
		}
	}
}

// checkError fails the test unless the error has all words.
func checkError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
}
