// Copyright Contributors to the Open Cluster Management project

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestIssueServesClientsAndServers(t *testing.T) {
	ca, err := NewCA("lab-ca")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.CertPEM) {
		t.Fatal("the CA is not a certificate")
	}
	certPEM, keyPEM, err := ca.Issue(Subject{Name: "admin", Groups: []string{"system:masters"}, Hosts: []string{"localhost", "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	for host, usage := range map[string]x509.ExtKeyUsage{
		"localhost": x509.ExtKeyUsageServerAuth, "127.0.0.1": x509.ExtKeyUsageServerAuth, "": x509.ExtKeyUsageClientAuth,
	} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Errorf("host %q, usage %d: %v", host, usage, err)
		}
	}
	if got := pair.Leaf.Subject; got.CommonName != "admin" || len(got.Organization) != 1 || got.Organization[0] != "system:masters" {
		t.Errorf("the subject is %s, want user admin of group system:masters", got)
	}
}
