// Copyright Contributors to the Open Cluster Management project

// Package charts tests the templates of the chart without a cluster.
package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/controllers/rendering"
)

// helmVariable is the environment variable with the path of Helm, which TestMain sets for all tests.
const helmVariable = "KNATIVE_ADDON_TEST_HELM"

// TestMain builds Helm with the flags of the Makefile, unless the build cache has Helm already.
func TestMain(m *testing.M) {
	build := exec.CommandContext(context.Background(), "go", "tool", "-modfile=../go.tools.mod", "-n", "helm")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath"), os.Stderr
	path, err := build.Output()
	if err == nil {
		err = os.Setenv(helmVariable, strings.TrimSpace(string(path)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build Helm:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// renderChart returns the objects of the chart with values, in YAML, by `kind/name`; or the error of Helm. The test reads a copy of the
// chart, because the cache of go test notices only files that the test itself has read.
func renderChart(t *testing.T, values string) (map[string][]byte, error) {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "knative-addon")
	if err := os.CopyFS(chart, os.DirFS("knative-addon")); err != nil {
		t.Fatal(err)
	}
	helm := exec.CommandContext(t.Context(), os.Getenv(helmVariable), "template", "knative-addon", chart, "--namespace", "knative-addon", "--values", "-")
	helm.Stdin = strings.NewReader(values)
	var fault bytes.Buffer
	helm.Stderr = &fault
	out, err := helm.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, fault.String())
	}
	return splitObjects(t, out), nil
}

// splitObjects returns the objects of a text in YAML by `kind/name`.
func splitObjects(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	objects := map[string][]byte{}
	decoder := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	buffer := make([]byte, 1<<20)
	for {
		n, err := decoder.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		var object metav1.PartialObjectMetadata
		if err := sigsyaml.Unmarshal(buffer[:n], &object); err != nil {
			t.Fatalf("%v in:\n%s", err, buffer[:n])
		}
		if object.Kind != "" {
			objects[object.Kind+"/"+object.Name] = bytes.Clone(buffer[:n])
		}
	}
}

// renderObject returns an object of the chart with values. A field that the kind does not have fails the test.
func renderObject[T any](t *testing.T, values, key string) *T {
	t.Helper()
	objects, err := renderChart(t, values)
	if err != nil {
		t.Fatal(err)
	}
	if objects[key] == nil {
		t.Fatalf("the chart has no %s", key)
	}
	out := new(T)
	if err := sigsyaml.UnmarshalStrict(objects[key], out); err != nil {
		t.Fatalf("%v in:\n%s", err, objects[key])
	}
	return out
}

// renderPod returns the manager's pod of the chart with values.
func renderPod(t *testing.T, values string) corev1.PodSpec {
	t.Helper()
	return renderObject[appsv1.Deployment](t, values, "Deployment/knative-addon-manager").Spec.Template.Spec
}

func expectEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// upstreamPlugins are values with the images of cluster-inventory-api, which contain one file each and no shell.
const upstreamPlugins = `
image: {repository: example.com/knative-addon, tag: v1}
multicluster:
  enabled: true
  pluginDelivery: %s
  plugins:
  - {name: secretreader, image: "registry.k8s.io/cluster-inventory-api/secretreader:v0.1.3", mountPath: /plugins/secretreader}
  - {name: kubeconfig, image: "registry.k8s.io/cluster-inventory-api/kubeconfig-secretreader:v0.1.3", mountPath: /plugins/kubeconfig/, runAsUser: 65532}
  accessProvidersConfig:
    providers:
    - {name: secretreader, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: /plugins/secretreader/bin/secretreader-plugin}}
    - {name: again, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: /plugins/secretreader/bin/secretreader-plugin}}
    - {name: kubeconfig, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: /plugins/kubeconfig/bin/kubeconfig-secretreader-plugin}}
`

// findMounts returns the path of each volume in a container.
func findMounts(c *corev1.Container) map[string]string {
	out := map[string]string{}
	for _, m := range c.VolumeMounts {
		out[m.Name] = m.MountPath
	}
	return out
}

func TestPluginsAreImageVolumes(t *testing.T) {
	pod := renderPod(t, fmt.Sprintf(upstreamPlugins, "ImageVolume"))
	expectEqual(t, "init containers", 0, len(pod.InitContainers))
	images := map[string]string{}
	for _, v := range pod.Volumes {
		if v.Image != nil {
			images[v.Name] = v.Image.Reference
		}
	}
	expectEqual(t, "image volumes", map[string]string{
		"plugin-secretreader": "registry.k8s.io/cluster-inventory-api/secretreader:v0.1.3",
		"plugin-kubeconfig":   "registry.k8s.io/cluster-inventory-api/kubeconfig-secretreader:v0.1.3",
	}, images)
	mounts := findMounts(&pod.Containers[0])
	expectEqual(t, "mount of the first plugin", "/plugins/secretreader", mounts["plugin-secretreader"])
	expectEqual(t, "mount of the second plugin", "/plugins/kubeconfig/", mounts["plugin-kubeconfig"])
}

// TestInitContainersCopyPlugins holds that the same values deliver the same files at the same paths without image volumes: the program
// of the manager runs in the plugin's image, so the image needs no program that copies.
func TestInitContainersCopyPlugins(t *testing.T) {
	pod := renderPod(t, fmt.Sprintf(upstreamPlugins, "InitContainer"))
	type step struct {
		Name, Image   string
		Command, Args []string
		Mounts        map[string]string
	}
	var got []step
	for i := range pod.InitContainers {
		c := &pod.InitContainers[i]
		got = append(got, step{c.Name, c.Image, c.Command, c.Args, findMounts(c)})
		if c.SecurityContext == nil || c.SecurityContext.RunAsNonRoot == nil || !*c.SecurityContext.RunAsNonRoot || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("init container %s may run as root, or without a limit of memory: %+v, %+v", c.Name, c.SecurityContext, c.Resources)
		}
	}
	copies := []string{"/plugin-tools/knative-addon", "copy-files", "--to=/plugin-files"}
	expectEqual(t, "init containers", []step{
		{"plugin-tools", "example.com/knative-addon:v1", nil, []string{"copy-files", "--to=/plugin-tools", "/knative-addon"}, map[string]string{"plugin-tools": "/plugin-tools"}},
		{
			"plugin-secretreader", "registry.k8s.io/cluster-inventory-api/secretreader:v0.1.3", copies,
			[]string{"/bin/secretreader-plugin"},
			map[string]string{"plugin-secretreader": "/plugin-files", "plugin-tools": "/plugin-tools"},
		},
		{
			"plugin-kubeconfig", "registry.k8s.io/cluster-inventory-api/kubeconfig-secretreader:v0.1.3", copies,
			[]string{"/bin/kubeconfig-secretreader-plugin"},
			map[string]string{"plugin-kubeconfig": "/plugin-files", "plugin-tools": "/plugin-tools"},
		},
	}, got)
	if user := pod.InitContainers[2].SecurityContext.RunAsUser; user == nil || *user != 65532 {
		t.Errorf("the init container with runAsUser runs as %v", user)
	}
	empty := map[string]bool{}
	for _, v := range pod.Volumes {
		empty[v.Name] = v.EmptyDir != nil
	}
	expectEqual(t, "volumes", map[string]bool{"tmp": true, "access-providers": false, "plugin-secretreader": true, "plugin-kubeconfig": true, "plugin-tools": true}, empty)
	expectEqual(t, "mount of the first plugin", "/plugins/secretreader", findMounts(&pod.Containers[0])["plugin-secretreader"])
}

// TestPluginsCopyThemselves holds that the command of an image with a shell stays in force.
func TestPluginsCopyThemselves(t *testing.T) {
	pod := renderPod(t, `
multicluster:
  enabled: true
  pluginDelivery: InitContainer
  plugins:
  - {name: cloud, image: example.com/cloud:v1, mountPath: /plugins/cloud, copyCommand: [/bin/cp, -r, /opt/cloud, /plugins/cloud]}
  accessProvidersConfig: {providers: [{name: cloud, execConfig: {command: /plugins/cloud/cloud/bin/login}}]}
`)
	if len(pod.InitContainers) != 1 {
		t.Fatalf("init containers are %+v, want that of the plugin only", pod.InitContainers)
	}
	expectEqual(t, "command", []string{"/bin/cp", "-r", "/opt/cloud", "/plugins/cloud"}, pod.InitContainers[0].Command)
	expectEqual(t, "mounts", map[string]string{"plugin-cloud": "/plugins/cloud"}, findMounts(&pod.InitContainers[0]))
}

func TestManagerHasFurtherVariablesAndVolumes(t *testing.T) {
	const values = `
extraEnv:
- {name: HTTPS_PROXY, valueFrom: {secretKeyRef: {name: proxy, key: url}}}
extraVolumes:
- {name: authorities, configMap: {name: authorities}}
extraVolumeMounts:
- {name: authorities, mountPath: /etc/ssl/certs, readOnly: true}
`
	plain, pod := renderPod(t, "{}"), renderPod(t, values)
	proxy := corev1.EnvVar{Name: "HTTPS_PROXY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "proxy"}, Key: "url",
	}}}
	expectEqual(t, "variables", append(plain.Containers[0].Env, corev1.EnvVar{Name: "NO_PROXY", Value: "$(KUBERNETES_SERVICE_HOST)"}, proxy), pod.Containers[0].Env)
	own := renderPod(t, `extraEnv: [{name: HTTPS_PROXY, value: "http://proxy"}, {name: NO_PROXY, value: ".svc"}]`)
	expectEqual(t, "variables with NO_PROXY", append(plain.Containers[0].Env,
		corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://proxy"}, corev1.EnvVar{Name: "NO_PROXY", Value: ".svc"}), own.Containers[0].Env)
	lower := renderPod(t, `extraEnv: [{name: https_proxy, value: "http://proxy"}]`)
	expectEqual(t, "variables with a proxy in lower case", append(plain.Containers[0].Env,
		corev1.EnvVar{Name: "NO_PROXY", Value: "$(KUBERNETES_SERVICE_HOST)"}, corev1.EnvVar{Name: "https_proxy", Value: "http://proxy"}), lower.Containers[0].Env)
	lower = renderPod(t, `extraEnv: [{name: HTTPS_PROXY, value: "http://proxy"}, {name: no_proxy, value: ".svc"}]`)
	expectEqual(t, "variables with no_proxy", append(plain.Containers[0].Env,
		corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://proxy"}, corev1.EnvVar{Name: "no_proxy", Value: ".svc"}), lower.Containers[0].Env)
	expectEqual(t, "mounts", append(plain.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "authorities", MountPath: "/etc/ssl/certs", ReadOnly: true}), pod.Containers[0].VolumeMounts)
	expectEqual(t, "volumes", append(plain.Volumes, corev1.Volume{Name: "authorities", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "authorities"}},
	}}), pod.Volumes)
}

// TestMaxRemovalOfManyClusters holds that a large number keeps its digits: Helm reads numbers as floating point.
func TestMaxRemovalOfManyClusters(t *testing.T) {
	for values, want := range map[string]string{"{}": "--max-removal=10%", "maxRemoval: 0": "--max-removal=0", "maxRemoval: 1000000": "--max-removal=1000000"} {
		if args := renderPod(t, values).Containers[0].Args; !slices.Contains(args, want) {
			t.Errorf("%s: the arguments are %q, want %s", values, args, want)
		}
	}
}

func TestManagerUsesProxy(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		want   []corev1.EnvVar
		ports  []int32
	}{
		"no proxy": {"{}", nil, []int32{443, 6443}},
		"both proxies": {
			`proxy: {httpProxy: "http://web.example.com:8080", httpsProxy: "http://proxy.example.com:3128", noProxy: ".svc,10.0.0.0/8"}`,
			[]corev1.EnvVar{
				{Name: "HTTP_PROXY", Value: "http://web.example.com:8080"},
				{Name: "HTTPS_PROXY", Value: "http://proxy.example.com:3128"},
				{Name: "NO_PROXY", Value: "$(KUBERNETES_SERVICE_HOST),.svc,10.0.0.0/8"},
			},
			[]int32{443, 6443, 8080, 3128},
		},
		"a proxy without a port has the port of its scheme": {
			`proxy: {httpProxy: "http://web.example.com", httpsProxy: "socks5://proxy.example.com"}`,
			[]corev1.EnvVar{
				{Name: "HTTP_PROXY", Value: "http://web.example.com"},
				{Name: "HTTPS_PROXY", Value: "socks5://proxy.example.com"},
				{Name: "NO_PROXY", Value: "$(KUBERNETES_SERVICE_HOST)"},
			},
			[]int32{443, 6443, 80, 1080},
		},
		"the hub is never behind the proxy, and an open port stays one port": {
			`proxy: {httpsProxy: "https://proxy.example.com:443"}`,
			[]corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "https://proxy.example.com:443"}, {Name: "NO_PROXY", Value: "$(KUBERNETES_SERVICE_HOST)"}},
			[]int32{443, 6443},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []corev1.EnvVar
			for _, v := range renderPod(t, tc.values).Containers[0].Env {
				if strings.HasSuffix(v.Name, "PROXY") {
					got = append(got, v)
				}
			}
			expectEqual(t, "variables", tc.want, got)
			policy := renderObject[networkingv1.NetworkPolicy](t, tc.values, "NetworkPolicy/knative-addon-manager")
			var ports []int32
			for _, p := range policy.Spec.Egress[1].Ports {
				ports = append(ports, p.Port.IntVal)
			}
			expectEqual(t, "ports of the NetworkPolicy", tc.ports, ports)
		})
	}
}

func TestReplicasSpreadOverNodes(t *testing.T) {
	for name, key := range map[string]string{"manager": "Deployment/knative-addon-manager", "local-installs": "Deployment/knative-addon-local"} {
		t.Run(name, func(t *testing.T) {
			d := renderObject[appsv1.Deployment](t, "localInstalls: true", key)
			expectEqual(t, "default constraints", []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: d.Spec.Selector,
				MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
			}}, d.Spec.Template.Spec.TopologySpreadConstraints)
			d = renderObject[appsv1.Deployment](t, "{localInstalls: true, topologySpreadConstraints: []}", key)
			expectEqual(t, "constraints of an empty list", 0, len(d.Spec.Template.Spec.TopologySpreadConstraints))
		})
	}
	const own = `topologySpreadConstraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]`
	expectEqual(t, "constraints of the user", []corev1.TopologySpreadConstraint{{
		MaxSkew: 2, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
	}}, renderPod(t, own).TopologySpreadConstraints)
}

// TestReleasesAreMounted holds that every program that renders has the same releases, and reads nothing without a sum.
func TestReleasesAreMounted(t *testing.T) {
	const sum = "d5e85ca0ea3db868a72bd04c89041e2e89cf05c608365bff89d8f4ac86e476c8"
	image := corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "example.com/releases@sha256:" + sum}}
	projected := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
		ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "knative-1.24"}, Items: []corev1.KeyToPath{{Key: "sums", Path: "SHA256SUMS"}},
		},
	}}}}
	for source, volume := range map[string]corev1.VolumeSource{
		"{image: {reference: example.com/releases@sha256:" + sum + "}}":                                       image,
		"{projected: {sources: [{configMap: {name: knative-1.24, items: [{key: sums, path: SHA256SUMS}]}}]}}": projected,
	} {
		for _, key := range []string{"Deployment/knative-addon-manager", "Deployment/knative-addon-local"} {
			plain := renderObject[appsv1.Deployment](t, "localInstalls: true", key).Spec.Template.Spec
			pod := renderObject[appsv1.Deployment](t, "{localInstalls: true, rendering: {releases: {sha256: "+sum+", volume: "+source+"}}}", key).Spec.Template.Spec
			flags := []string{"--releases-dir=/etc/knative-releases", "--releases-sha256=" + sum}
			var other []string
			for _, argument := range pod.Containers[0].Args {
				if !slices.Contains(flags, argument) {
					other = append(other, argument)
				}
			}
			expectEqual(t, "other arguments of "+key, plain.Containers[0].Args, other)
			expectEqual(t, "number of arguments of "+key, len(plain.Containers[0].Args)+len(flags), len(pod.Containers[0].Args))
			mount := corev1.VolumeMount{Name: "releases", MountPath: "/etc/knative-releases", ReadOnly: true}
			expectEqual(t, "mounts of "+key, append(plain.Containers[0].VolumeMounts, mount), pod.Containers[0].VolumeMounts)
			expectEqual(t, "volumes of "+key, append(plain.Volumes, corev1.Volume{Name: "releases", VolumeSource: volume}), pod.Volumes)
			expectEqual(t, "termination message of "+key, corev1.TerminationMessageFallbackToLogsOnError, pod.Containers[0].TerminationMessagePolicy)
		}
	}
}

// TestRenderingRollout holds that the manager gets the selected rollout strategy of renderings, which the manager accepts, and that the
// Deployment for the hub itself, which has no such flag, does not.
func TestRenderingRollout(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"the default": {
			"{}", `{"progressive":{"maxConcurrency":"25%","maxFailures":0,"minSuccessTime":"30s","progressDeadline":"10m"},"type":"Progressive"}`,
		},
		"a changed field": {
			"rendering: {rolloutStrategy: {progressive: {maxConcurrency: 1}}}",
			`{"progressive":{"maxConcurrency":1,"maxFailures":0,"minSuccessTime":"30s","progressDeadline":"10m"},"type":"Progressive"}`,
		},
		"all clusters at once": {"rendering: {rolloutStrategy: {type: All}}", `{"all":{"progressDeadline":"10m"},"type":"All"}`},
	} {
		t.Run(name, func(t *testing.T) {
			args := renderPod(t, tc.values).Containers[0].Args
			var got []string
			for _, arg := range args {
				if strategy, isStrategy := strings.CutPrefix(arg, "--rendering-rollout="); isStrategy {
					got = append(got, strategy)
				}
			}
			expectEqual(t, "the rollout strategy", []string{tc.want}, got)
			if _, err := rendering.ParseStrategy(tc.want); err != nil {
				t.Error(err)
			}
		})
	}
	local := renderObject[appsv1.Deployment](t, "localInstalls: true", "Deployment/knative-addon-local").Spec.Template.Spec.Containers[0].Args
	if slices.ContainsFunc(local, func(arg string) bool { return strings.HasPrefix(arg, "--rendering-rollout") }) {
		t.Errorf("the arguments of Deployment knative-addon-local are %q", local)
	}
}

// TestVerificationDefault holds that both programs that install get the verification, and no flag by default.
func TestVerificationDefault(t *testing.T) {
	for values, want := range map[string]int{"localInstalls: true": 0, "{localInstalls: true, rendering: {verification: KeptService}}": 2} {
		found := 0
		for _, name := range []string{"knative-addon-manager", "knative-addon-local"} {
			d := renderObject[appsv1.Deployment](t, values, "Deployment/"+name)
			if slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--verification=KeptService") {
				found++
			}
		}
		if found != want {
			t.Errorf("%s: %d programs have the flag, want %d", values, found, want)
		}
	}
}

func TestRefusedValues(t *testing.T) {
	plugins := fmt.Sprintf(upstreamPlugins, "InitContainer")
	for name, tc := range map[string]struct{ values, want string }{
		"a plugin without a file to copy": {
			strings.Replace(plugins, "command: /plugins/kubeconfig/", "command: /plugins/secretreader/", 1), `plugin "kubeconfig" has no file to copy`,
		},
		"a plugin with the name of the tools": {strings.Replace(plugins, "name: secretreader, image", "name: tools, image", 1), "tools"},
		"a plugin as root":                    {strings.Replace(plugins, "65532", "0", 1), "runAsUser"},
		"a proxy without a scheme":            {`proxy: {httpsProxy: "proxy.example.com:3128"}`, "httpsProxy"},
		"an unknown value of the proxy":       {`proxy: {httpProxies: "http://proxy.example.com:3128"}`, "httpProxies"},
		"a spread without a topology":         {`topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]`, "topologyKey"},
		"releases without a sum":              {`rendering: {releases: {volume: {configMap: {name: x}}}}`, "sha256"},
		"releases with half a sum":            {`rendering: {releases: {volume: {configMap: {name: x}}, sha256: d5e85ca0}}`, "sha256"},
		"a sum without releases":              {`rendering: {releases: {sha256: d5e85ca0ea3db868a72bd04c89041e2e89cf05c608365bff89d8f4ac86e476c8}}`, "sha256"},
		"releases of two volumes":             {`rendering: {releases: {volume: {configMap: {name: x}, image: {reference: x}}, sha256: d5e85ca0ea3db868a72bd04c89041e2e89cf05c608365bff89d8f4ac86e476c8}}`, "volume"},
		"a name of the volume of releases":    {`rendering: {releases: {volume: {name: x}, sha256: d5e85ca0ea3db868a72bd04c89041e2e89cf05c608365bff89d8f4ac86e476c8}}`, "volume"},
		"a variable without a name":           {`extraEnv: [{value: x}]`, "extraEnv"},
		"a mount without a path":              {`extraVolumeMounts: [{name: x}]`, "extraVolumeMounts"},
		"a volume without a name":             {`extraVolumes: [{emptyDir: {}}]`, "extraVolumes"},
		"a misspelled verification":           {`rendering: {verification: service}`, "verification"},
		"a rollout of renderings by groups":   {`rendering: {rolloutStrategy: {type: ProgressivePerGroup}}`, "rolloutStrategy"},
		"a misspelled rollout of renderings":  {`rendering: {rolloutStrategy: {progressive: {maxFailure: 1}}}`, "maxFailure"},
		"all renderings, but some at a time":  {`rendering: {rolloutStrategy: {type: All, all: {maxConcurrency: 1}}}`, "all"},
		"all clusters, but some at a time":    {`serving: {installStrategy: {rolloutStrategy: {type: All, all: {maxConcurrency: 1}}}}`, "all"},
		"all clusters, and groups first":      {`serving: {installStrategy: {rolloutStrategy: {type: All, all: {mandatoryDecisionGroups: []}}}}`, "all"},
		"whole groups, but some at a time":    {`serving: {installStrategy: {rolloutStrategy: {progressivePerGroup: {maxConcurrency: 1}}}}`, "progressivePerGroup"},
		"a network without an address":        {`rendering: {remoteManifestsAllowedNetworks: [intranet/8]}`, "remoteManifestsAllowedNetworks"},
		"a server with a path":                {`multicluster: {inventories: [{namespace: a, providers: [x], servers: [api.example.com/8]}]}`, "servers"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := renderChart(t, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestKustomizeBaseIsComplete holds that the generated base has every object of the chart that is no hook, and no trace of Helm.
func TestKustomizeBaseIsComplete(t *testing.T) {
	base, err := os.ReadFile("../deploy/kustomize/knative-addon.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.ToLower(string(base)), "helm") {
		t.Error("the base names Helm")
	}
	objects, err := renderChart(t, "{uninstallCheck: {enabled: false}}")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for key, object := range objects {
		if !bytes.Contains(object, []byte("helm.sh/hook")) {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	expectEqual(t, "objects of the base", want, slices.Sorted(maps.Keys(splitObjects(t, base))))
}
