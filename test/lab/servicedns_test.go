// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/test/lab/process"
)

// TestServicesProxy holds that the proxy connects to Services by their names, and to nothing else.
func TestServicesProxy(t *testing.T) {
	const service = "users.addon:9092"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s has answered", r.Host)
	}))
	defer server.Close()
	ports := &process.Ports{}
	defer ports.Release()
	port, err := ports.Next()
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := startServicesProxy(itoa(port), map[string]string{service: strings.TrimPrefix(server.URL, "https://")})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.close()
	address, err := url.Parse(proxy.url)
	if err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", client.Transport)
	}
	transport.Proxy, transport.TLSClientConfig.ServerName = http.ProxyURL(address), "example.com" // the name in the certificate
	if got, err := fetch(t, client, "https://"+service); err != nil || got != service+" has answered" {
		t.Errorf("the Service answers %q, error %v", got, err)
	}
	for _, other := range []string{server.URL, "https://other.addon:9092", "https://users.addon:443"} {
		if got, err := fetch(t, client, other); err == nil {
			t.Errorf("%s answers %q", other, got)
		}
	}
}

func fetch(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
