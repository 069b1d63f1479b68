// Copyright Contributors to the Open Cluster Management project

package charts

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// TestInstallCheckIsHook holds that `helm test` runs the manager's program with nothing but the permissions that the check needs, and
// that a release without pods has no test.
func TestInstallCheckIsHook(t *testing.T) {
	const name = "knative-addon-install-check"
	kinds := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "NetworkPolicy", "Pod"}
	objects, err := renderChart(t, "image: {repository: example.com/knative-addon, tag: v1}")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		var object metav1.PartialObjectMetadata
		if err := sigsyaml.Unmarshal(objects[kind+"/"+name], &object); err != nil {
			t.Fatal(err)
		}
		if object.Annotations["helm.sh/hook"] != "test" || (object.Annotations["helm.sh/hook-weight"] == "-1") != (kind != "Pod") {
			t.Errorf("%s is no object of the test, or not before the pod: %v", kind, object.Annotations)
		}
	}
	pod := renderObject[corev1.Pod](t, "image: {repository: example.com/knative-addon, tag: v1}", "Pod/"+name)
	expectEqual(t, "image", "example.com/knative-addon:v1", pod.Spec.Containers[0].Image)
	expectEqual(t, "arguments", []string{"install-check", "--addon-namespace=knative-addon"}, pod.Spec.Containers[0].Args)
	if objects, err = renderChart(t, "replicaCount: 0"); err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if objects[kind+"/"+name] != nil {
			t.Errorf("a release without pods has %s %s", kind, name)
		}
	}
}

// TestChecksReachTheHub holds that the pods of `helm test` and `helm uninstall` may connect to the ports that the manager may connect to,
// and that no pod may connect to the checks.
func TestChecksReachTheHub(t *testing.T) {
	egress := renderObject[networkingv1.NetworkPolicy](t, "{}", "NetworkPolicy/knative-addon-manager").Spec.Egress
	labels := map[string]map[string]string{
		"knative-addon-install-check":   renderObject[corev1.Pod](t, "{}", "Pod/knative-addon-install-check").Labels,
		"knative-addon-uninstall-check": renderObject[batchv1.Job](t, "{}", "Job/knative-addon-uninstall-check").Spec.Template.Labels,
	}
	for name, podLabels := range labels {
		policy := renderObject[networkingv1.NetworkPolicy](t, "{}", "NetworkPolicy/"+name)
		expectEqual(t, name, networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: podLabels}, Egress: egress,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		}, policy.Spec)
	}
	for _, values := range []string{"replicaCount: 0", "networkPolicy: {enabled: false}"} {
		objects, err := renderChart(t, values)
		if err != nil {
			t.Fatal(err)
		}
		for name := range labels {
			if objects["NetworkPolicy/"+name] != nil {
				t.Errorf("%s: the release has NetworkPolicy %s", values, name)
			}
		}
	}
}
