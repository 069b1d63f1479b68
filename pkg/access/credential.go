// Copyright Contributors to the Open Cluster Management project

package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

// credential is what a plugin gave. It is not changed once it is made.
type credential struct {
	// token goes into the Authorization header, when there is one.
	token string
	// certificate is the client's, nil when there is none.
	certificate *tls.Certificate
	// certificateID tells one certificate from another; empty when there is none.
	certificateID string
	// expires is zero when the plugin does not say.
	expires time.Time
}

// String and GoString keep a credential out of what is printed.
func (*credential) String() string { return withheld }

// GoString is for %#v.
func (*credential) GoString() string { return withheld }

// answer is ExecCredential as plugins print it. Nothing that a library says about it is repeated: it may quote it.
type answer struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     *struct {
		Token                 string  `json:"token"`
		ClientCertificateData string  `json:"clientCertificateData"`
		ClientKeyData         string  `json:"clientKeyData"`
		ExpirationTimestamp   *string `json:"expirationTimestamp"`
	} `json:"status"`
}

// parse reads what the plugin printed.
func (r *recipe) parse(stdout []byte) (*credential, *fault) {
	const byHand = "run it by hand with the same arguments and see what it prints"
	if len(bytes.TrimSpace(stdout)) == 0 {
		return nil, providerFailed(byHand, "%s printed nothing", r.plugin())
	}
	var a answer
	if json.Unmarshal(stdout, &a) != nil {
		return nil, providerFailed(byHand, "%s printed something else than an ExecCredential in JSON", r.plugin())
	}
	if a.Kind != "ExecCredential" {
		return nil, providerFailed(byHand, "%s printed an object of another kind than ExecCredential", r.plugin())
	}
	if a.APIVersion != r.APIVersion {
		return nil, providerFailed("set execConfig.apiVersion to what the plugin speaks",
			"%s answered in %s, not in %s as configured", r.plugin(), versionShown(a.APIVersion), r.APIVersion)
	}
	if a.Status == nil {
		return nil, providerFailed(byHand, "%s gave neither token nor certificate", r.plugin())
	}
	c := &credential{}
	var wrong *fault
	if c.token, wrong = r.parseToken(a.Status.Token); wrong != nil {
		return nil, wrong
	}
	if wrong = r.parseCertificate(c, a.Status.ClientCertificateData, a.Status.ClientKeyData); wrong != nil {
		return nil, wrong
	}
	if c.token == "" && c.certificate == nil {
		return nil, providerFailed(byHand, "%s gave neither token nor certificate", r.plugin())
	}
	if at := a.Status.ExpirationTimestamp; at != nil && *at != "" {
		expires, err := time.Parse(time.RFC3339, *at)
		if err != nil {
			return nil, providerFailed(byHand, "%s gave an expirationTimestamp that is not a time of RFC 3339", r.plugin())
		}
		c.expires = expires
	}
	return c, nil
}

// versionShown repeats only what can be a version.
func versionShown(version string) string {
	rest, ok := strings.CutPrefix(version, clientauthv1.GroupName+"/")
	if !ok || len(rest) > len("v1alpha1") {
		return "another API version"
	}
	return oneLine(version, maxShown)
}

// parseToken forgives space around the token, which files tend to have at their end. In the middle no header may have it.
func (r *recipe) parseToken(token string) (string, *fault) {
	token = strings.TrimSpace(token)
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return "", providerFailed("see what the plugin takes for the token",
				"%s gave a token with characters that no token has", r.plugin())
		}
	}
	return token, nil
}

func (r *recipe) parseCertificate(c *credential, certificate, key string) *fault {
	if certificate == "" && key == "" {
		return nil
	}
	const next = "see where the plugin has them from"
	if certificate == "" || key == "" {
		return providerFailed(next, "%s gave only one of client certificate and key", r.plugin())
	}
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		return providerFailed(next, "%s gave a client certificate and key that cannot be read or do not belong together", r.plugin())
	}
	sum := sha256.Sum256(append([]byte(certificate+"\x00"), key...))
	c.certificate, c.certificateID = &pair, hex.EncodeToString(sum[:])
	return nil
}
