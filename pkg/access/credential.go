// Copyright Contributors to the Open Cluster Management project

package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

// credential is the result of a plugin. No field changes after the creation.
type credential struct {
	// token is the bearer token of the Authorization header; empty without a token.
	token string
	// certificate is the client certificate; nil without a certificate.
	certificate *tls.Certificate
	// certificateID is a hash of certificate and key; empty without a certificate.
	certificateID string
	// expires is zero when the plugin does not say.
	expires time.Time
}

// String and GoString keep a credential out of logs and messages.
func (*credential) String() string { return withheld }

// GoString keeps a credential out of texts with verb %#v.
func (*credential) GoString() string { return withheld }

// execCredential is the ExecCredential that plugins print. Messages never repeat the error of a library about an
// ExecCredential, which may quote a secret.
type execCredential struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     *struct {
		Token                 string  `json:"token"`
		ClientCertificateData string  `json:"clientCertificateData"`
		ClientKeyData         string  `json:"clientKeyData"`
		ExpirationTimestamp   *string `json:"expirationTimestamp"`
	} `json:"status"`
}

// parseCredential reads the stdout of a plugin.
func (spec *connectionSpec) parseCredential(stdout []byte) (*credential, *fault) {
	if len(bytes.TrimSpace(stdout)) == 0 {
		return nil, providerFailed(runByHand, "%s printed nothing", spec.describePlugin())
	}
	var a execCredential
	if json.Unmarshal(stdout, &a) != nil {
		return nil, providerFailed(runByHand, "%s printed something else than an ExecCredential in JSON", spec.describePlugin())
	}
	if a.Kind != "ExecCredential" {
		return nil, providerFailed(runByHand, "%s printed an object of another kind than ExecCredential", spec.describePlugin())
	}
	if a.APIVersion != spec.APIVersion {
		return nil, providerFailed("set execConfig.apiVersion to what the plugin speaks",
			"%s answered in %s, not in %s as configured", spec.describePlugin(), describeVersion(a.APIVersion), spec.APIVersion)
	}
	if a.Status == nil {
		return nil, providerFailed(runByHand, "%s gave neither token nor certificate", spec.describePlugin())
	}
	c := &credential{}
	var failure *fault
	if c.token, failure = spec.parseToken(a.Status.Token); failure != nil {
		return nil, failure
	}
	if failure = spec.parseCertificate(c, a.Status.ClientCertificateData, a.Status.ClientKeyData); failure != nil {
		return nil, failure
	}
	if c.token == "" && c.certificate == nil {
		return nil, providerFailed(runByHand, "%s gave neither token nor certificate", spec.describePlugin())
	}
	if at := a.Status.ExpirationTimestamp; at != nil && *at != "" {
		expires, err := time.Parse(time.RFC3339, *at)
		if err != nil {
			return nil, providerFailed(runByHand, "%s gave an expirationTimestamp that is not a time of RFC 3339", spec.describePlugin())
		}
		c.expires = expires
	}
	return c, nil
}

// describeVersion repeats only known versions: a plugin may print anything else in place of a version.
func describeVersion(version string) string {
	rest, ok := strings.CutPrefix(version, clientauthv1.GroupName+"/")
	if !ok || !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, rest) {
		return "another API version"
	}
	return version
}

// parseToken removes space around the token, with which files tend to end. A header may not have space within the token.
func (spec *connectionSpec) parseToken(token string) (string, *fault) {
	token = strings.TrimSpace(token)
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return "", providerFailed("see what the plugin takes for the token",
				"%s gave a token with characters that no token has", spec.describePlugin())
		}
	}
	return token, nil
}

func (spec *connectionSpec) parseCertificate(c *credential, certificate, key string) *fault {
	if certificate == "" && key == "" {
		return nil
	}
	const next = "see where the plugin has them from"
	if certificate == "" || key == "" {
		return providerFailed(next, "%s gave only one of client certificate and key", spec.describePlugin())
	}
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		return providerFailed(next, "%s gave a client certificate and key that cannot be read or do not belong together", spec.describePlugin())
	}
	sum := sha256.Sum256(append([]byte(certificate+"\x00"), key...))
	c.certificate, c.certificateID = &pair, hex.EncodeToString(sum[:])
	return nil
}
