// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// multiclusterValues are values with one access provider, in a file.
func multiclusterValues(t *testing.T, delivery, mountPath string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `multicluster:
  enabled: true
  pluginDelivery: %s
  secretNamespaces: [default]
  plugins:
  - {name: secretreader, image: example.com/secretreader:v1, mountPath: %s, copyCommand: [/bin/cp, /secretreader, %s/]}
  accessProvidersConfig:
    providers:
    - {name: secretreader, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: /access/secretreader/plugin, provideClusterInfo: true}}
`, delivery, mountPath, mountPath), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestChartAccessProviders holds how plugins come into the manager's pod, and what values are refused.
func TestChartAccessProviders(t *testing.T) {
	f := fleet(t)
	for name, tc := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"image volumes": {
			args: []string{"--values", multiclusterValues(t, "ImageVolume", "/access/secretreader")},
			want: []string{
				"name: clusterprofile-provider-file", "--clusterprofile-provider-file=/etc/cluster-inventory/config.json",
				"--watched-clusters=400", "--remote-deployments-poll-interval=10s",
				"reference: example.com/secretreader:v1", "mountPath: /access/secretreader", `"command": "/access/secretreader/plugin"`,
			},
		},
		"init containers": {
			args: []string{"--values", multiclusterValues(t, "InitContainer", "/access/secretreader")},
			want: []string{"initContainers:", "- /bin/cp", "image: example.com/secretreader:v1"},
		},
		"a path that is not absolute": {
			args: []string{"--values", multiclusterValues(t, "ImageVolume", "access")}, err: `mountPath "access" of plugin "secretreader" is not absolute`,
		},
		"a command that no plugin has": {
			args: []string{"--values", multiclusterValues(t, "ImageVolume", "/access/secret")},
			err:  `command "/access/secretreader/plugin" of provider "secretreader" is not under the mountPath`,
		},
		"no providers": {args: []string{"--set", "multicluster.enabled=true"}, err: "multicluster.accessProvidersConfig.providers is empty"},
		"no way to copy": {
			args: []string{
				"--values", multiclusterValues(t, "InitContainer", "/access/secretreader"),
				"--set-json", `multicluster.plugins=[{"name":"secretreader","image":"example.com/secretreader:v1","mountPath":"/access/secretreader"}]`,
			},
			err: `plugin "secretreader" has no copyCommand`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.Template(t.Context(), tc.args...)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error is %v, want %q", err, tc.err)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in:\n%s", want, got)
				}
			}
		})
	}
}
