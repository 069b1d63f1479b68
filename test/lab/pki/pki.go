// Copyright Contributors to the Open Cluster Management project

// Package pki issues the throwaway certificates and kubeconfigs of a lab. A certificate is valid for a year, and each key
// lies unencrypted in the lab's directory: nothing of this package is fit for a real cluster.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/openshift/library-go/pkg/crypto"
	"k8s.io/apiserver/pkg/authentication/user"
)

// validity is how long certificates are valid.
const validity = 365 * 24 * time.Hour

// CA signs the certificates of one control plane.
type CA struct {
	ca crypto.CA
	// CertPEM is the CA's certificate.
	CertPEM []byte
	// KeyPEM is the CA's private key.
	KeyPEM []byte
}

// Subject is the user and the server that a certificate identifies.
type Subject struct {
	// Name and Groups are the user for an API server.
	Name   string
	Groups []string
	// Hosts are DNS names and IP addresses of the server; none for a client.
	Hosts []string
}

// NewCA returns a self-signed CA with an RSA key.
func NewCA(name string) (*CA, error) {
	config, err := crypto.MakeSelfSignedCAConfigForDuration(name, validity)
	if err != nil {
		return nil, fmt.Errorf("cannot sign CA %q: %w", name, err)
	}
	cert, key, err := config.GetPEMBytes()
	if err != nil {
		return nil, fmt.Errorf("cannot encode CA %q: %w", name, err)
	}
	return &CA{ca: crypto.CA{Config: config, SerialGenerator: &crypto.RandomSerialGenerator{}}, CertPEM: cert, KeyPEM: key}, nil
}

// Issue returns a certificate for client and server use and its key, both as PEM. The key is an ECDSA key: library-go issues
// certificates with RSA keys only, which take fifty times as long to generate.
func (ca *CA) Issue(s Subject) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot generate a key: %w", err)
	}
	subject := crypto.UserToSubject(&user.DefaultInfo{Name: s.Name, Groups: s.Groups})
	template := crypto.NewClientCertificateTemplateForDuration(subject, validity, time.Now)
	template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	template.IPAddresses, template.DNSNames = crypto.IPAddressesDNSNames(s.Hosts)
	signed, err := ca.ca.SignCertificate(template, private.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("cannot sign certificate %q: %w", s.Name, err)
	}
	if cert, err = crypto.EncodeCertificates(signed); err != nil {
		return nil, nil, fmt.Errorf("cannot encode certificate %q: %w", s.Name, err)
	}
	if key, err = crypto.EncodeKey(private); err != nil {
		return nil, nil, fmt.Errorf("cannot encode the key of certificate %q: %w", s.Name, err)
	}
	return cert, key, nil
}
