// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const workloads = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template: {metadata: {labels: {app: d}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s, namespace: default}
spec:
  serviceName: s
  selector: {matchLabels: {app: s}}
  template: {metadata: {labels: {app: s}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: default}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
`

// rollsOut looks at what a light spoke promises: workloads are rolled out and roles aggregated, also after its API server was gone.
func rollsOut(t *testing.T, l *Lab) {
	t.Helper()
	added, err := l.AddLightSpokes(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	c := added[0]
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), serverTimeout)
	defer cancel()
	done := func(replicas int32) func(context.Context) error {
		return func(ctx context.Context) error {
			d, err := client.AppsV1().Deployments("default").Get(ctx, "d", metav1.GetOptions{})
			if err != nil {
				return err
			}
			s, err := client.AppsV1().StatefulSets("default").Get(ctx, "s", metav1.GetOptions{})
			if err != nil {
				return err
			}
			j, err := client.BatchV1().Jobs("default").Get(ctx, "j", metav1.GetOptions{})
			if err != nil {
				return err
			}
			view, err := client.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
			if err == nil && len(view.Rules) == 0 {
				err = errors.New("ClusterRole view, which aggregates others, has no rules")
			}
			if err != nil {
				return err
			}
			if d.Status.AvailableReplicas != replicas || s.Status.AvailableReplicas != 1 || j.Status.Succeeded != 1 {
				return fmt.Errorf("the status is %v, %v, %v", d.Status, s.Status, j.Status)
			}
			return nil
		}
	}
	if err := c.Apply(ctx, []byte(workloads)); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(ctx, "the rollout", done(2)); err != nil {
		t.Fatal(err)
	}
	server := c.Name + "-apiserver"
	if err := l.Kill(server); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(server); err != nil {
		t.Fatal(err)
	}
	err = waitFor(ctx, "the API server", func(ctx context.Context) error {
		scale, err := client.AppsV1().Deployments("default").GetScale(ctx, "d", metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = 3
		_, err = client.AppsV1().Deployments("default").UpdateScale(ctx, "d", scale, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = waitFor(ctx, "the rollout", done(3))
	}
	if err != nil {
		t.Fatal(err)
	}
}
