// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestContainerArguments holds that arguments name the files that stand for the mounted files, and no other argument changes.
func TestContainerArguments(t *testing.T) {
	c := container{cluster: &Cluster{dir: "/lab/cluster1"}, component: "cluster1-agent"}
	got := c.arguments(corev1.Container{
		Command:      []string{"/msa", "agent"},
		Args:         []string{"--kubeconfig=/etc/hub/kubeconfig", "--ca=/etc/hub-ca/ca.crt", "--cluster-name=cluster1", "--v"},
		VolumeMounts: []corev1.VolumeMount{{MountPath: "/etc/hub/"}, {MountPath: "/etc/tls"}},
	})
	want := []string{"agent", "--kubeconfig=/lab/cluster1/cluster1-agent/etc/hub/kubeconfig", "--ca=/etc/hub-ca/ca.crt", "--cluster-name=cluster1", "--v"}
	if !slices.Equal(got, want) {
		t.Errorf("the arguments are %q, want %q", got, want)
	}
}

// TestContainerProgram holds that the programs whose names say too little have the name of their image.
func TestContainerProgram(t *testing.T) {
	for command, want := range map[string]string{
		"/manager": "cluster-proxy-manager", "/agent": "cluster-proxy-agent", "/cluster-proxy": "cluster-proxy", "/proxy-agent": "proxy-agent", "/msa": "msa",
	} {
		if got := programOf(corev1.Container{Command: []string{command}}); got != want {
			t.Errorf("the program of %s is %s, want %s", command, got, want)
		}
	}
}
