// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
)

const servingYAML = `
apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata: {name: knative-serving, namespace: fleet}
spec: {version: "1.23", ingress: {kourier: {enabled: true}}}
`

// execute runs a command with arguments and standard input and returns what it printed.
func execute(t *testing.T, cmd *cobra.Command, input string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestOffline(t *testing.T) {
	for name, tc := range map[string]struct {
		cmd  *cobra.Command
		args []string
		want []string
	}{
		"render as YAML":      {newRenderCommand(), []string{"-f", "-"}, []string{"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole", "name: 3scale-kourier-gateway"}},
		"render a summary":    {newRenderCommand(), []string{"-f", "-", "-o", "summary"}, []string{"knative-serving 1.23.0", "Payload", "Images"}},
		"render for push":     {newRenderCommand(), []string{"-f", "-", "--mode", "Direct"}, []string{"_example"}},
		"images":              {newImagesCommand(), []string{"-f", "-"}, []string{"knative.dev/serving/cmd/queue@sha256:", "envoyproxy/envoy"}},
		"images with objects": {newImagesCommand(), []string{"-f", "-", "-o", "json"}, []string{`"UsedBy":["ConfigMap`}},
		"versions":            {newVersionsCommand(), nil, []string{"knative-serving\t1.23.0 ", "knative-eventing\t1.23.0 ", "source\tknative.dev/operator "}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, tc.cmd, servingYAML, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range tc.want {
				if !strings.Contains(out, w) {
					t.Errorf("%q is not in what was printed:\n%.2000s", w, out)
				}
			}
		})
	}
}

func TestRenderJSONIsOneObjectALine(t *testing.T) {
	pull, err := execute(t, newRenderCommand(), servingYAML, "-f", "-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	push, err := execute(t, newRenderCommand(), servingYAML, "-f", "-", "-o", "json", "--mode", "Direct")
	if err != nil {
		t.Fatal(err)
	}
	count := func(out string) (n int) {
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("no JSON: %.200s", line)
			}
			n++
		}
		return n
	}
	if p, q := count(pull), count(push); p != q+3 {
		t.Errorf("pull has %d objects and push %d: pull has the work agent's role besides, and what the cluster claims of version and ingress", p, q)
	}
	for _, ofAgents := range []string{"aggregate-to-work", "ClusterClaim"} {
		if strings.Contains(push, ofAgents) || !strings.Contains(pull, ofAgents) {
			t.Errorf("%s is for clusters with a work agent, and for all of them", ofAgents)
		}
	}
}

const valuedYAML = `
apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata: {name: knative-serving, namespace: fleet}
spec:
  version: "1.23"
  ingress: {kourier: {enabled: true}}
  config: {features: {where: $(cluster.labels.region)/$(cluster.variables.tier)}}
`

// TestOfflineForACluster holds that a resource which uses values can be tried without a cluster.
func TestOfflineForACluster(t *testing.T) {
	config, serving := filepath.Join(t.TempDir(), "config.yaml"), filepath.Join(t.TempDir(), "serving.yaml")
	if err := os.WriteFile(serving, []byte(servingYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(config, []byte(`
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: infra, namespace: fleet}
spec:
  customizedVariables: [{name: tier, value: gold}]
  nodePlacement: {nodeSelector: {role: infra}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, newRenderCommand(), valuedYAML, "-f", "-", "--cluster-value", "labels.region=eu", "--addon-deployment-config", config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"where: eu/gold", "role: infra"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in what was printed", want)
		}
	}
	for name, args := range map[string][]string{
		"$(cluster.labels.region)":    {"--addon-deployment-config", config},
		"labels.KEY=x":                {"--cluster-value", "labels.region"},
		"$(cluster.region) is no":     {"--cluster-value", "region=eu"},
		"cannot read --addon":         {"--addon-deployment-config", config + "x"},
		"must be an AddOnDeploymentC": {"--addon-deployment-config", serving},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t, newRenderCommand(), valuedYAML, append([]string{"-f", "-"}, args...)...); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error is %v, want one with %q", err, name)
			}
		})
	}
}

func TestOfflineBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		input  string
		args   []string
		reason render.Reason
		want   string
	}{
		"unknown output":  {servingYAML, []string{"-f", "-", "-o", "xml"}, api.ReasonRenderFailed, "yaml, json or summary"},
		"unknown mode":    {servingYAML, []string{"-f", "-", "--mode", "mail"}, api.ReasonRenderFailed, "ManifestWork or Direct"},
		"no file":         {"", nil, api.ReasonRenderFailed, "filename"},
		"missing file":    {"", []string{"-f", "/nowhere.yaml"}, api.ReasonRenderFailed, "/nowhere.yaml"},
		"empty input":     {"", []string{"-f", "-"}, api.ReasonInvalidSpec, "no KnativeServing"},
		"unknown version": {strings.ReplaceAll(servingYAML, "1.23", "1.3"), []string{"-f", "-"}, api.ReasonUnknownVersion, "1.23"},
		"refused remote manifest": {
			strings.Replace(servingYAML, "spec: {", "spec: {additionalManifests: [{URL: https://example.com/a.yaml}], ", 1),
			[]string{"-f", "-"},
			api.ReasonRemoteManifestRefused, "example.com",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, newRenderCommand(), tc.input, tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error is %v, want one with %q", err, tc.want)
			}
			if got := render.ReasonOf(err); got != tc.reason {
				t.Errorf("reason is %q, want %q", got, tc.reason)
			}
		})
	}
}

// writeRelease writes a directory with Serving 1.24.0, a copy of the bundled 1.23.0, and returns the directory and the sum.
func writeRelease(t *testing.T) (dir, sum string) {
	t.Helper()
	bundled, dir := t.TempDir(), t.TempDir()
	if _, err := releases.Unpack(bundled); err != nil {
		t.Fatal(err)
	}
	var sums strings.Builder
	for from, to := range map[string]string{"knative-serving/1.23.0": "knative-serving/1.24.0", "ingress/1.23/kourier": "ingress/1.24/kourier"} {
		names, err := os.ReadDir(filepath.Join(bundled, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, to), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			data, err := os.ReadFile(filepath.Join(bundled, from, n.Name()))
			if err != nil {
				t.Fatal(err)
			}
			data = bytes.ReplaceAll(data, []byte("1.23.0"), []byte("1.24.0"))
			if err := os.WriteFile(filepath.Join(dir, to, n.Name()), data, 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&sums, "%x  %s/%s\n", sha256.Sum256(data), to, n.Name())
		}
	}
	if err := os.WriteFile(filepath.Join(dir, releases.SumsName), []byte(sums.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, fmt.Sprintf("%x", sha256.Sum256([]byte(sums.String())))
}

// TestFurtherReleases holds that all commands that render, and the programs on a hub, have the same releases.
func TestFurtherReleases(t *testing.T) {
	dir, sum := writeRelease(t)
	newer := strings.ReplaceAll(servingYAML, "1.23", "1.24")
	confirmed := []string{"--releases-dir", dir, "--releases-sha256", sum}
	for name, tc := range map[string]struct {
		cmd  *cobra.Command
		args []string
		want string
	}{
		"versions":              {newVersionsCommand(), nil, "knative-serving\t1.24.0 1.23.0 "},
		"source of the release": {newVersionsCommand(), nil, "; directory " + dir + ", sha256:" + sum + "\n"},
		"render":                {newRenderCommand(), []string{"-f", "-"}, "app.kubernetes.io/version: 1.24.0"},
		"images":                {newImagesCommand(), []string{"-f", "-"}, "knative.dev/serving/cmd/queue@sha256:"},
		"rbac":                  {newRBACCommand(), []string{"-f", "-", "--from", "1.23"}, "storage-version-migration-serving-serving-1.24.0"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, tc.cmd, newer, append(tc.args, confirmed...)...)
			if err != nil || !strings.Contains(out, tc.want) {
				t.Errorf("%v, want %q in:\n%.2000s", err, tc.want, out)
			}
		})
	}
	t.Run("a command needs no sum, and says so", func(t *testing.T) {
		out, err := execute(t, newVersionsCommand(), "", "--releases-dir", dir)
		if err != nil || !strings.Contains(out, sum+", unverified\n") {
			t.Errorf("%v, want the sum in:\n%s", err, out)
		}
	})
	t.Run("another sum", func(t *testing.T) {
		if _, err := execute(t, newVersionsCommand(), "", "--releases-dir", dir, "--releases-sha256", strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), sum) {
			t.Errorf("error is %v, want the sum of the directory", err)
		}
	})
	for name, cmd := range map[string]*cobra.Command{"manager": newManagerCommand(), "local-installs": newLocalInstallsCommand()} {
		t.Run(name+" needs a sum", func(t *testing.T) {
			if _, err := execute(t, cmd, "", "--releases-dir", dir, "--kubeconfig", "/nowhere"); err == nil || !strings.Contains(err.Error(), "--releases-sha256") {
				t.Errorf("error is %v, want the flag that is missing", err)
			}
		})
	}
	for name, cmd := range map[string]*cobra.Command{"diff": newDiffCommand(), "register": newRegisterCommand()} {
		if cmd.Flags().Lookup("releases-dir") == nil || cmd.Flags().Lookup("releases-sha256") == nil {
			t.Errorf("%s has no flags for further releases", name)
		}
	}
}
