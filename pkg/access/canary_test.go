// Copyright Contributors to the Open Cluster Management project

package access

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestCanary holds that no secret is in any error, nor in what is behind it, wherever a plugin or server puts it.
func TestCanary(t *testing.T) {
	const canary = "c4n4ry-T0k3n"
	answer := `{"apiVersion":"` + execV1 + `","kind":"ExecCredential","status":{"token":"` + canary + `"}}`
	quoted := "'" + answer + "'"
	key := issue(t, nil, func(c *x509.Certificate) { c.IPAddresses = nil })
	scripts := map[string]string{
		"refused by the server":      "echo " + quoted,
		"on both":                    "echo " + quoted + "; echo 'this is " + canary + "' >&2; exit 1",
		"on both, then a hang":       "echo " + quoted + "; echo 'this is " + canary + "' >&2; sleep 600",
		"on stderr, named":           "echo 'error: token: " + canary + "' >&2; exit 1",
		"on stderr, as JSON":         "echo " + quoted + " >&2; exit 1",
		"of the configuration":       "echo \"cannot log in with $CANARY\" >&2; exit 1",
		"of the arguments":           "echo \"cannot run with $*\" >&2; exit 1",
		"in garbage":                 "echo " + canary,
		"in another version":         "echo '{\"apiVersion\":\"client.authentication.k8s.io/" + canary + "\",\"kind\":\"ExecCredential\"}'",
		"in another kind":            "echo '{\"apiVersion\":\"" + execV1 + "\",\"kind\":\"" + canary + "\"}'",
		"in a value":                 "echo '{\"status\":{\"token\":{\"" + canary + "\":1}}}'",
		"in a time":                  "echo '{\"apiVersion\":\"" + execV1 + "\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"x\",\"expirationTimestamp\":\"" + canary + "\"}}'",
		"that no header can have":    "echo '{\"apiVersion\":\"" + execV1 + "\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"" + canary + "\\u0001x\"}}'",
		"in a key that is no key":    "echo '{\"apiVersion\":\"" + execV1 + "\",\"kind\":\"ExecCredential\",\"status\":{\"clientKeyData\":\"" + canary + "\",\"clientCertificateData\":" + asJSON(t, canary) + "}}'",
		"in a key":                   "cat <<'END' >&2\n" + string(key.keyPEM) + "END\nexit 1",
		"in what the server repeats": "echo " + quoted,
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			s := newSpoke(t, func(s *spoke) {
				s.answer = func(w http.ResponseWriter, r *http.Request) bool {
					if strings.Contains(name, "repeats") {
						_, _ = io.WriteString(w, r.Header.Get("Authorization"))
						return true
					}
					return false
				}
			})
			source := providers(plugin(t, script), func(p *Provider) {
				p.ExecConfig.Env = []clientcmdapi.ExecEnvVar{{Name: "CANARY", Value: canary}, {Name: "PATH", Value: os.Getenv("PATH")}}
				p.ExecConfig.Args = []string{"--client-secret=" + canary, canary}
			})
			session := sessionFor(t, source, profile("p", s.cluster()), options(func(o *Options) { o.Plugin.Timeout = 500 * time.Millisecond }))
			_, err := session.Probe(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			secrets := []string{canary, strings.Split(string(key.keyPEM), "\n")[1]}
			shown := strings.Join(append(everything(err), fmt.Sprintf("%v %+v %#v %s", session, session, session, session)), "\n")
			for _, secret := range secrets {
				if strings.Contains(shown, secret) {
					t.Errorf("%s is in %s", secret, shown)
				}
			}
		})
	}
}

// everything is an error and what is behind it, in all ways to print it.
func everything(err error) []string {
	if err == nil {
		return nil
	}
	out := []string{err.Error(), fmt.Sprintf("%v %+v %#v %q", err, err, err, err)}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			out = append(out, everything(e)...)
		}
	}
	return append(out, everything(errors.Unwrap(err))...)
}
