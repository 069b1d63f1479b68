// Copyright Contributors to the Open Cluster Management project

package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/trust"
)

const (
	execV1      = "client.authentication.k8s.io/v1"
	execV1beta1 = "client.authentication.k8s.io/v1beta1"
	goodToken   = "good-token"
)

// plugin writes a shell script.
func plugin(t testing.TB, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	writePlugin(t, path, script)
	return path
}

// writePlugin writes a file that can be run at once: a descriptor that another test's child inherits for a moment while
// it is open for writing would make the kernel answer "text file busy".
func writePlugin(t testing.TB, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// tokenScript prints a credential.
func tokenScript(token string) string {
	return fmt.Sprintf(`echo '{"apiVersion":%q,"kind":"ExecCredential","status":{"token":%q}}'`+"\n", execV1, token)
}

// counting makes a script count how often it ran, in a file.
func counting(t testing.TB, script string) (counted string, runs func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runs")
	return "echo run >>" + file + "\n" + script, func() int {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(data), "run\n")
	}
}

// providers is a source with one access provider, "exec".
func providers(command string, change ...func(*Provider)) *fakeSource {
	p := Provider{Name: "exec", ExecConfig: &clientcmdapi.ExecConfig{APIVersion: execV1, Command: command}}
	for _, c := range change {
		c(&p)
	}
	s := &fakeSource{}
	s.set(FileState{Configured: true, Providers: []Provider{p}})
	return s
}

type fakeSource struct{ state atomic.Pointer[FileState] }

func (s *fakeSource) State() FileState { return *s.state.Load() }

func (s *fakeSource) set(state FileState) { s.state.Store(&state) }

// profile offers access provider "exec".
func profile(name string, cluster clientcmdv1.Cluster) *clusterinventoryv1alpha1.ClusterProfile {
	return &clusterinventoryv1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name},
		Spec:       clusterinventoryv1alpha1.ClusterProfileSpec{ClusterManager: clusterinventoryv1alpha1.ClusterManager{Name: "by-hand"}},
		Status: clusterinventoryv1alpha1.ClusterProfileStatus{
			AccessProviders: []clusterinventoryv1alpha1.AccessProvider{{Name: "exec", Cluster: cluster}},
		},
	}
}

func extension(name, raw string) clientcmdv1.NamedExtension {
	return clientcmdv1.NamedExtension{Name: name, Extension: runtime.RawExtension{Raw: []byte(raw)}}
}

// certificate is what issue makes.
type certificate struct {
	pair    tls.Certificate
	pem     []byte
	keyPEM  []byte
	parsed  *x509.Certificate
	private *ecdsa.PrivateKey
}

// issue makes a certificate for 127.0.0.1, signed by an authority or, when that is nil, by itself.
func issue(t testing.TB, by *certificate, change func(*x509.Certificate)) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "test " + serial.String()},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        by == nil, BasicConstraintsValid: true,
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.parsed, by.private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := &certificate{
		parsed: parsed, private: key,
		pem:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}
	c.pair, err = tls.X509KeyPair(c.pem, c.keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// spoke is an API server with as much as Probe asks for. Fields are set before the first request.
type spoke struct {
	*httptest.Server
	ca *certificate
	// tokens that it takes; its clients' certificates are taken when there is a pool of them.
	mu     sync.Mutex
	tokens map[string]bool
	// answer comes first, when it is there; it tells whether it has answered.
	answer func(http.ResponseWriter, *http.Request) bool

	requests atomic.Int64
}

func newSpoke(t testing.TB, change ...func(*spoke)) *spoke {
	t.Helper()
	s := &spoke{ca: issue(t, nil, nil), tokens: map[string]bool{goodToken: true}}
	s.Server = httptest.NewUnstartedServer(s)
	// What clients refuse is told by their errors.
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{issue(t, s.ca, func(c *x509.Certificate) { c.IsCA = false }).pair}}
	for _, c := range change {
		c(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// take sets the tokens that are taken.
func (s *spoke) take(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = map[string]bool{}
	for _, token := range tokens {
		s.tokens[token] = true
	}
}

func (s *spoke) knows(r *http.Request) bool {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
}

func (s *spoke) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if s.answer != nil && s.answer(w, r) {
		return
	}
	if !s.knows(r) {
		http.Error(w, `{"kind":"Status","apiVersion":"v1","code":401}`, http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/version", "/prefix/version":
		fmt.Fprint(w, `{"major":"1","minor":"35","gitVersion":"v1.35.1"}`)
	case "/api/v1/namespaces/kube-system", "/prefix/api/v1/namespaces/kube-system":
		fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"0b1a-uid"}}`)
	default:
		http.NotFound(w, r)
	}
}

// cluster is how a profile says where the spoke is.
func (s *spoke) cluster() clientcmdv1.Cluster {
	return clientcmdv1.Cluster{Server: s.URL, CertificateAuthorityData: s.ca.pem}
}

// options are quick and do not depend on chance.
func options(change ...func(*Options)) Options {
	o := Options{
		Jitter:  func() float64 { return 0.5 },
		Plugin:  PluginLimits{Timeout: 30 * time.Second},
		Cluster: ClusterLimits{QPS: 1000, Burst: 1000, DialTimeout: long, ProbeTimeout: long},
		// The spokes of tests are on this host.
		Inventories: inventories("fleet", "*", "127.0.0.0/8", "::1"),
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

// inventories permit ClusterProfiles of one namespace every access provider, Secret and extension, and some servers.
func inventories(namespace string, servers ...string) trust.Inventories {
	entry := trust.OwnInventory(namespace)
	entry.Servers, entry.Proxies = servers, servers
	out, err := trust.NewInventories([]trust.Inventory{entry})
	if err != nil {
		panic(err)
	}
	return out
}

// permitting are options that permit everything that profiles of tests say.
func permitting() *Options {
	o := options(func(o *Options) { o.LookupEnv = func(string) (string, bool) { return "", false } }).withDefaults()
	return &o
}

// sessionFor is a session that ends with the test.
func sessionFor(t testing.TB, source Source, p *clusterinventoryv1alpha1.ClusterProfile, o Options) *Session {
	t.Helper()
	sessions := NewSessions(source, o)
	t.Cleanup(sessions.Close)
	s, err := sessions.For(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON quotes as JSON does.
func asJSON(t testing.TB, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// deadAddress is one where nobody listens.
func deadAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // over at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only the number was wanted
	return "127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
