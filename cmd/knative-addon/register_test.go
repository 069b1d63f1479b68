// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// writeKubeconfig writes a kubeconfig of a cluster, and returns the file.
func writeKubeconfig(t *testing.T, cluster string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "edge-7.yaml")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: edge, contexts: [{name: edge, context: {cluster: edge, user: edge}}],
users: [{name: edge, user: {token: secret}}], clusters: [{name: edge, cluster: %s}]}`, cluster)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRegisterBadInput(t *testing.T) {
	const reachable = `{server: "https://edge-7.invalid:6443"}`
	elsewhere := strings.Replace(servingYAML, "spec: {", "spec: {clusterProfileRef: {namespace: team, name: edge-8}, ", 1)
	for name, tc := range map[string]struct {
		cluster, input string
		args           []string
		want           []string
	}{
		"a name in upper case":               {reachable, "", []string{"Edge-7", "--namespace", "team"}, []string{"Edge-7", "lower-case"}},
		"no namespace":                       {reachable, "", []string{"edge-7"}, []string{"namespace", "required"}},
		"a namespace with a slash":           {reachable, "", []string{"edge-7", "--namespace", "team/x"}, []string{"--namespace=", "name of a namespace"}},
		"an unknown context":                 {reachable, "", []string{"edge-7", "--namespace", "team", "--context", "prod"}, []string{"--kubeconfig=", "prod"}},
		"an account without namespace":       {reachable, "", []string{"edge-7", "--namespace", "team", "--service-account", "hub"}, []string{"namespace/name"}},
		"a token of a minute":                {reachable, "", []string{"edge-7", "--namespace", "team", "--token-duration", "1m"}, []string{"10m"}},
		"an unknown output":                  {reachable, "", []string{"edge-7", "--namespace", "team", "--output", "name"}, []string{"yaml or json"}},
		"a resource of another cluster":      {reachable, elsewhere, []string{"edge-7", "--namespace", "team", "-f", "-"}, []string{`"team/edge-8"`, `"team/edge-7"`, "spec.clusterProfileRef"}},
		"an unknown version":                 {reachable, servingYAML, []string{"edge-7", "--namespace", "team", "-f", "-", "--from", "1.3"}, []string{"1.23"}},
		"a cluster without verification":     {`{server: "https://edge-7.invalid", insecure-skip-tls-verify: true}`, "", []string{"edge-7", "--namespace", "team"}, []string{"insecure-skip-tls-verify", "--allow-insecure-tls"}},
		"a cluster without TLS":              {`{server: "http://edge-7.invalid"}`, "", []string{"edge-7", "--namespace", "team"}, []string{"no TLS", "--allow-plain-http"}},
		"a server that is not an address":    {reachable, "", []string{"edge-7", "--namespace", "team", "--server", "edge-7"}, []string{`"edge-7"`, "--server"}},
		"a file of resources that is absent": {reachable, "", []string{"edge-7", "--namespace", "team", "-f", "/absent.yaml"}, []string{"--filename", "/absent.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := writeKubeconfig(t, `{server: "https://hub.invalid"}`)
			args := append([]string{"--kubeconfig", writeKubeconfig(t, tc.cluster), "--hub-kubeconfig", hub}, tc.args...)
			_, err := execute(t, newRegisterCommand(), tc.input, args...)
			if err == nil {
				t.Fatal("no error")
			}
			contains(t, err.Error(), tc.want, true)
		})
	}
}

func TestRegisterNeedsAReadableHub(t *testing.T) {
	_, err := execute(t, newRegisterCommand(), "", "edge-7", "--namespace", "team", "--kubeconfig", writeKubeconfig(t, `{server: "https://edge-7.invalid"}`),
		"--hub-kubeconfig", "/absent")
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), []string{"the hub's kubeconfig", "/absent", "--hub-kubeconfig"}, true)
}

func TestRegisterHelpHasExamples(t *testing.T) {
	for name, cmd := range map[string]*cobra.Command{"register": newRegisterCommand(), "unregister": newUnregisterCommand()} {
		out, err := execute(t, cmd, "", "--help")
		if err != nil {
			t.Fatal(err)
		}
		contains(t, out, []string{"Examples:", "knative-addon " + name + " edge-7", "--hub-kubeconfig"}, true)
	}
}
