// Copyright Contributors to the Open Cluster Management project

// Package pki makes the throwaway certificates and kubeconfigs of a lab. Nothing it makes is fit for anything else:
// certificates are valid for a year, and keys lie unencrypted in the lab's directory.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// CA signs the certificates of one control plane.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// CertPEM is the CA's certificate.
	CertPEM []byte
	// KeyPEM is the CA's private key.
	KeyPEM []byte
}

// Subject says what a certificate is for.
type Subject struct {
	CommonName   string
	Organization []string
	DNSNames     []string
	IPs          []net.IP
}

// NewCA makes a self-signed CA.
func NewCA(name string) (*CA, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := template(Subject{CommonName: name})
	if err != nil {
		return nil, err
	}
	cert.IsCA, cert.BasicConstraintsValid = true, true
	cert.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	cert.ExtKeyUsage = nil
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign CA %q: %w", name, err)
	}
	return &CA{cert: cert, key: key, CertPEM: certPEM(der), KeyPEM: keyPEM}, nil
}

// Issue makes a key and a certificate for client and server use.
func (ca *CA) Issue(s Subject) (cert, key []byte, err error) {
	priv, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	tmpl, err := template(s)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, priv.Public(), ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot sign certificate %q: %w", s.CommonName, err)
	}
	return certPEM(der), keyPEM, nil
}

// NewServiceAccountKey makes the key pair that signs service account tokens.
func NewServiceAccountKey() (private, public []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode the service account key: %w", err)
	}
	return keyPEM, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot generate a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func template(s Subject) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("cannot draw a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.CommonName, Organization: s.Organization},
		DNSNames:     s.DNSNames,
		IPAddresses:  s.IPs,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
