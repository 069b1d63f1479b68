// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// missingImage is an image of a registry that does not exist.
const missingImage = "registry.invalid/autoscaler:missing"

// keepPending is a policy that lets no pod with missingImage leave phase Pending: the nodes of the lab run no images, and report every pod as
// running.
const keepPending = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: missing-image}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods/status]}
  validations:
  - expression: object.status.phase == "Pending" || object.spec.containers.all(c, c.image != "` + missingImage + `")
    message: the image cannot be pulled
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: missing-image}
spec: {policyName: missing-image, validationActions: [Deny]}
`

// imageFault is an image of a workload that no node can pull. The story plays the reports of the node: the pod stays Pending, and its
// container waits for the image.
func imageFault() fault {
	return fault{
		name: "an image cannot be pulled",
		cause: func(t *testing.T, w way) {
			t.Helper()
			w.kubectl(t, keepPending, "apply")
			w.awaitPendingImages(t)
			w.spec(t, map[string]any{"registry": map[string]any{"override": map[string]any{"autoscaler/autoscaler": missingImage}}})
			w.reportMissingImage(t)
		},
		mend: func(t *testing.T, w way) {
			t.Helper()
			w.spec(t, map[string]any{"registry": nil})
			w.kubectl(t, keepPending, "delete")
		},
		want: verdicts{api.DeploymentsAvailable: "False " + api.ReasonWorkloadsNotReady},
		says: []string{"Deployment knative-serving/autoscaler: "},
	}
}

// awaitPendingImages waits until policy keepPending judges the reports of nodes.
func (w way) awaitPendingImages(t *testing.T) {
	t.Helper()
	pods := w.kube.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "missing-image-"},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: missingImage}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	eventually(t, "the policy is in force on "+w.Name, time.Minute, func(ctx context.Context) error {
		_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return checkDenied(err, "the image cannot be pulled")
	})
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reportMissingImage reports the pod that has missingImage as a kubelet does.
func (w way) reportMissingImage(t *testing.T) {
	t.Helper()
	pods := w.kube.CoreV1().Pods(servingNamespace)
	eventually(t, "a pod of "+w.Name+" waits for its image", time.Minute, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=autoscaler"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if container := pod.Spec.Containers[0]; container.Image == missingImage {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: container.Name, Image: container.Image,
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}},
				}}
				_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
				return err
			}
		}
		return errors.New("no pod has the image")
	})
}
