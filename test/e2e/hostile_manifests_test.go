// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
)

// manifestServer serves manifests for spec.additionalManifests. The administrator permits the host and the address of the server, and
// the host, but not the address, of another listener.
type manifestServer struct {
	*httptest.Server
	// private is the listener whose address is not permitted, and connections counts its connections.
	private     net.Listener
	connections atomic.Int32
	// authorities is a file with the certificate of the server.
	authorities string
}

// startManifestServer starts a server that is slow, huge or leads elsewhere, by the path of the request.
func startManifestServer(t *testing.T, hub *lab.Cluster) *manifestServer {
	t.Helper()
	s := &manifestServer{authorities: filepath.Join(t.TempDir(), "authorities.pem")}
	var err error
	if s.private, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0"); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := s.private.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			_ = conn.Close()
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		line := []byte(strings.Repeat("#", 1<<20) + "\n")
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("# nothing\n")) })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.privateURL("/small"), http.StatusFound)
	})
	s.Server = httptest.NewTLSServer(mux)
	closeAfterInvariants(t, hub, func() { faultproxy.CloseServer(s.Server); _ = s.private.Close() })
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.authorities, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *manifestServer) privateURL(path string) string {
	return "https://" + s.private.Addr().String() + path
}

// options are the decisions of the administrator.
func (s *manifestServer) options() harness.Options {
	return harness.Options{
		Trusted: []string{"blue"}, Env: []string{"SSL_CERT_FILE=" + s.authorities},
		Manager: []string{
			fmt.Sprintf("--remote-manifests-allowed-hosts=%s,%s", s.Listener.Addr(), s.private.Addr()), "--remote-manifests-allowed-networks=127.0.0.1/32",
		},
	}
}

// addInputs adds resources whose manifests cannot be used.
func (s *manifestServer) addInputs(inputs map[string]hostileInput) {
	manifest := func(url, reason string, message ...string) hostileInput {
		return hostileInput{
			component: api.Serving, reason: reason, message: append(message, "additionalManifests[0]"),
			spec: map[string]any{"version": "1.23", "additionalManifests": []any{map[string]any{"URL": url}}},
		}
	}
	maps.Copy(inputs, map[string]hostileInput{
		"manifest-missing":   manifest(s.URL+"/absent", api.ReasonRemoteManifestUnavailable, `the server answers "404 Not Found"`),
		"manifest-slow":      manifest(s.URL+"/slow", api.ReasonRemoteManifestUnavailable, "no answer within 10s"),
		"manifest-huge":      manifest(s.URL+"/huge", api.ReasonRemoteManifestRefused, "it has more than 8388608 bytes"),
		"manifest-changed":   manifest(s.URL+"/small#sha256="+strings.Repeat("0", 64), api.ReasonRemoteManifestRefused, "its SHA-256 is"),
		"manifest-elsewhere": manifest(s.URL+"/elsewhere", api.ReasonRemoteManifestRefused, "it redirects to https://"+s.private.Addr().String()),
		"manifest-private":   manifest(s.privateURL("/small"), api.ReasonRemoteManifestRefused, "its host resolves to an address that is not public"),
	})
}
