// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// multiclusterValues are values with one access provider, in a file.
func multiclusterValues(t *testing.T, delivery, mountPath string) string {
	t.Helper()
	file := filepath.Join(kubectlDir(t), "values.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `multicluster:
  enabled: true
  pluginDelivery: %s
  inventories:
  - {namespace: edge, secretNamespace: default, providers: [secretreader], servers: ["*.example.com", 10.0.0.0/8], secrets: [edge-8, edge-7]}
  - {namespace: edge, secretNamespace: default, providers: [secretreader], servers: ["edge-9.example.com:6443"], secrets: [edge-9, edge-7]}
  - {namespace: clouds, providers: [google], servers: [connectgateway.googleapis.com]}
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

// chartAccessProviders holds how plugins come into the manager's pod, and what values are refused.
func chartAccessProviders(t *testing.T, f *harness.Fleet) {
	for name, tc := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"image volumes": {
			args: []string{"--values", multiclusterValues(t, "ImageVolume", "/access/secretreader")},
			want: []string{
				"name: clusterprofile-provider-file", "--clusterprofile-provider-file=/etc/cluster-inventory/config.json",
				"--watched-clusters=50", "--remote-deployments-poll-interval=10s",
				"reference: example.com/secretreader:v1", "mountPath: /access/secretreader", `"command": "/access/secretreader/plugin"`,
				"--inventory-file=/etc/cluster-inventory/inventories.json", `"connectgateway.googleapis.com"`,
				"  name: knative-addon-manager-plugins\n  namespace: default\n",
				"  resources: [secrets]\n  resourceNames:\n  - \"edge-7\"\n  - \"edge-8\"\n  - \"edge-9\"\n  verbs: [get]\n",
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
		"namespaces of Secrets as before": {
			args: []string{"--values", multiclusterValues(t, "ImageVolume", "/access/secretreader"), "--set-json", `multicluster.secretNamespaces=["default"]`},
			err:  "multicluster.secretNamespaces is no longer read",
		},
		"an inventory without servers": {
			args: []string{"--set-json", `multicluster.inventories=[{"namespace":"edge","providers":["x"]}]`}, err: "servers",
		},
		"an inventory of every namespace": {
			args: []string{"--set-json", `multicluster.inventories=[{"namespace":"*","providers":["x"],"servers":["*"]}]`}, err: "namespace",
		},
		"a URL as a server": {
			args: []string{"--set-json", `multicluster.inventories=[{"namespace":"edge","providers":["x"],"servers":["https://x"]}]`}, err: "servers",
		},
		"no providers": {args: []string{"--set", "multicluster.enabled=true"}, err: "multicluster.accessProvidersConfig.providers is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			renderTemplate(t, f, tc.args, tc.want, tc.err)
		})
	}
}

// renderTemplate holds that the chart has all that is wanted, or is refused with the error.
func renderTemplate(t *testing.T, f *harness.Fleet, args, want []string, refusal string) string {
	t.Helper()
	got, err := f.Template(t.Context(), args...)
	if refusal == "" && err != nil || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
		t.Fatalf("error is %v, want %q", err, refusal)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q is missing in:\n%s", w, got)
		}
	}
	return got
}

// chartPlacements holds what becomes of an installStrategy, and what is refused.
func chartPlacements(t *testing.T, f *harness.Fleet) {
	const placements = "serving.installStrategy.type=Placements"
	for name, tc := range map[string]struct {
		args, want, lacks []string
		err               string
	}{
		"by hand": {want: []string{"type: Manual"}, lacks: []string{"kind: Placement", "placements:", "rolloutStrategy:"}},
		"the chart's own Placement": {
			args: []string{"--set", placements},
			want: []string{
				"    - name: knative-serving\n      namespace: knative-addon\n      rolloutStrategy:\n        type: Progressive\n        progressive:\n",
				"minSuccessTime: 2m", "progressDeadline: 20m", "maxFailures: 1", "kind: Placement\n",
				"key: cluster.open-cluster-management.io/unreachable\n    operator: Exists",
				"key: cluster.open-cluster-management.io/unavailable\n    operator: Exists",
			},
			lacks: []string{"all:"},
		},
		"all at once": {
			args: []string{"--set", placements, "--set", "serving.installStrategy.rolloutStrategy.type=All"},
			want: []string{"type: All\n        all:\n          progressDeadline: 20m"}, lacks: []string{"progressive:"},
		},
		"group by group": {
			args: []string{"--set", placements, "--set", "serving.installStrategy.rolloutStrategy.type=ProgressivePerGroup"},
			want: []string{"type: ProgressivePerGroup\n        progressivePerGroup:\n"}, lacks: []string{"progressive:"},
		},
		"Placements of somebody else": {
			args: []string{
				"--set", placements,
				"--set-json", `serving.installStrategy.placements=[{"name":"edge","namespace":"fleet"},{"name":"core","namespace":"fleet","rolloutStrategy":{"type":"All"}}]`,
			},
			want: []string{
				"- name: edge\n      namespace: fleet\n      rolloutStrategy:\n        type: Progressive",
				"- name: core\n      namespace: fleet\n      rolloutStrategy:\n        type: All",
			},
			lacks: []string{"kind: Placement\n"},
		},
		"a deadline that OCM does not understand": {
			args: []string{"--set", placements, "--set", "serving.installStrategy.rolloutStrategy.progressive.progressDeadline=1h30m"}, err: "progressDeadline",
		},
		"an unknown strategy": {args: []string{"--set", "serving.installStrategy.rolloutStrategy.type=Some"}, err: "rolloutStrategy"},
	} {
		t.Run(name, func(t *testing.T) {
			got := renderTemplate(t, f, tc.args, tc.want, tc.err)
			for _, lacks := range tc.lacks {
				if strings.Contains(got, lacks) {
					t.Errorf("%q is in:\n%s", lacks, got)
				}
			}
		})
	}
}
