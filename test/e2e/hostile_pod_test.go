// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// checkMetricsReaders holds that metrics need a token of the hub with the chart's role.
func (h hostileHub) checkMetricsReaders(t *testing.T) {
	if status, _ := scrape(t.Context(), t, h.Fleet, harness.Manager, ""); status != http.StatusUnauthorized {
		t.Errorf("without a token the answer is %d", status)
	}
	if status, _ := scrape(t.Context(), t, h.Fleet, harness.Manager, h.tenant.BearerToken); status != http.StatusForbidden {
		t.Errorf("the tenant is answered %d", status)
	}
	token := createMetricsReader(t, h.Fleet)
	eventually(t, "a reader is answered", time.Minute, func(ctx context.Context) error { // the hub may know the new role a moment later
		if status, body := scrape(ctx, t, h.Fleet, harness.Manager, token); status != http.StatusOK || !strings.Contains(body, "workqueue_depth") {
			return fmt.Errorf("the answer is %d:\n%.200s", status, body)
		}
		return nil
	})
}

// checkPodSecurity holds that the pods of the chart, with all that values can add, run in a namespace which enforces Pod
// Security Standard restricted, and that each of their containers has limits and writes only to volumes that are bounded.
func (h hostileHub) checkPodSecurity(t *testing.T) {
	const namespace = "restricted"
	_, err := h.admin.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := h.podsOfChart(t, namespace)
	if len(pods) != 4 {
		t.Fatalf("there are %d pods", len(pods))
	}
	for _, pod := range pods {
		if err := h.Hub.Apply(t.Context(), fmt.Appendf(nil, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}", pod.Spec.ServiceAccountName, namespace)); err != nil {
			t.Fatal(err)
		}
		create := func(pod *corev1.Pod) error {
			_, err := h.admin.kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		if err := create(pod); err != nil {
			t.Errorf("pod %s: %v", pod.Name, err)
		}
		mustBeBounded(t, pod)
		open := pod.DeepCopy() // the namespace does enforce
		open.Spec.HostNetwork = true
		if err := create(open); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
			t.Errorf("a pod with hostNetwork: %v", err)
		}
	}
}

func mustBeBounded(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Limits.StorageEphemeral().IsZero() {
			t.Errorf("container %s of pod %s has the limits %v", c.Name, pod.Name, c.Resources.Limits)
		}
		if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("container %s of pod %s writes to its root file system", c.Name, pod.Name)
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			t.Errorf("volume %s of pod %s has no bound", v.Name, pod.Name)
		}
	}
	if pod.Spec.AutomountServiceAccountToken == nil {
		t.Errorf("pod %s does not say whether it has a token", pod.Name)
	}
}

// podsOfChart are the pods of the Deployments of the chart, with plugins from images and from init containers.
func (h hostileHub) podsOfChart(t *testing.T, namespace string) []*corev1.Pod {
	t.Helper()
	var out []*corev1.Pod
	for _, delivery := range []string{"ImageVolume", "InitContainer"} {
		digest := "sha256:" + strings.Repeat("ab", 32)
		text, err := h.Template(t.Context(), "--set", "localInstalls=true", "--set", "image.digest="+digest,
			"--set", "metrics.certificateSecret=certificate", "--values", multiclusterValues(t, delivery, "/access/secretreader"))
		if err != nil {
			t.Fatal(err)
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
		for {
			var d appsv1.Deployment
			err := documents.Decode(&d)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || d.Kind != "Deployment" {
				continue // of another kind, whose fields have other types
			}
			if image := d.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, "@"+digest) {
				t.Errorf("the image of Deployment %s is %q", d.Name, image)
			}
			out = append(out, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.Name, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec,
			})
		}
	}
	return out
}
