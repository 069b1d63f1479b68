// Copyright Contributors to the Open Cluster Management project

package charts

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// clusterProxyPreset returns the preset for clusters behind cluster-proxy with further values below multicluster.
func clusterProxyPreset(t *testing.T, multicluster string) string {
	t.Helper()
	preset, err := os.ReadFile("knative-addon/presets/cluster-proxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(preset), "multicluster:\n", "multicluster:\n"+multicluster, 1)
}

// TestClusterProxyPreset holds that the preset mounts the plugin at the path of the provider's command, and lets the manager reach
// cluster-proxy's Service and read the Secrets of an inventory.
func TestClusterProxyPreset(t *testing.T) {
	values := clusterProxyPreset(t, `  inventories:
  - namespace: team
    providers: [open-cluster-management]
    servers: ["cluster-proxy-addon-user.open-cluster-management-addon:9092", 10.96.0.0/12]
    secrets: [cluster1, cluster1-knative-addon]
`)
	file := renderObject[corev1.ConfigMap](t, values, "ConfigMap/clusterprofile-provider-file")
	type execConfig struct {
		APIVersion         string   `json:"apiVersion"`
		Command            string   `json:"command"`
		Args               []string `json:"args"`
		ProvideClusterInfo bool     `json:"provideClusterInfo"`
	}
	type provider struct {
		Name       string     `json:"name"`
		ExecConfig execConfig `json:"execConfig"`
	}
	var config struct {
		Providers []provider `json:"providers"`
	}
	if err := json.Unmarshal([]byte(file.Data["config.json"]), &config); err != nil {
		t.Fatal(err)
	}
	pod := renderPod(t, values)
	mount := findMounts(&pod.Containers[0])["plugin-cp-creds"]
	expectEqual(t, "access providers", []provider{{"open-cluster-management", execConfig{
		"client.authentication.k8s.io/v1", mount + "/cp-creds", []string{"--managed-serviceaccount=knative-addon"}, true,
	}}}, config.Providers)
	if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "plugin-cp-creds" && v.Image != nil }) {
		t.Error("the plugin is not an image volume")
	}
	policy := renderObject[networkingv1.NetworkPolicy](t, values, "NetworkPolicy/knative-addon-manager")
	if !slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == 9092 })
	}) {
		t.Errorf("the manager may not reach port 9092: %+v", policy.Spec.Egress)
	}
	role := renderObject[rbacv1.Role](t, values, "Role/knative-addon-manager-plugins")
	expectEqual(t, "namespace of the Secrets", "team", role.Namespace)
	expectEqual(t, "Secrets", []string{"cluster1", "cluster1-knative-addon"}, role.Rules[0].ResourceNames)
}

// TestClusterProxyPresetCopiesPlugin holds that the preset works without image volumes: the image of managed-serviceaccount names no user.
func TestClusterProxyPresetCopiesPlugin(t *testing.T) {
	pod := renderPod(t, clusterProxyPreset(t, "  pluginDelivery: InitContainer\n"))
	i := slices.IndexFunc(pod.InitContainers, func(c corev1.Container) bool { return c.Name == "plugin-cp-creds" })
	if i < 0 {
		t.Fatalf("init containers are %+v", pod.InitContainers)
	}
	expectEqual(t, "copied files", []string{"/cp-creds"}, pod.InitContainers[i].Args)
	if user := pod.InitContainers[i].SecurityContext.RunAsUser; user == nil || *user == 0 {
		t.Errorf("the plugin's image runs as user %v", user)
	}
}
