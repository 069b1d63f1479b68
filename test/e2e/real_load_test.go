// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

const (
	// requestTimeout is the time that an answer may take, loadTimeout the time under a load: a busy machine has taken 47 s to replace the
	// pods that answer, and the activator holds requests until then.
	requestTimeout = time.Minute
	loadTimeout    = 3 * time.Minute
	// loadInterval is the time between two requests of a load. A load goes on for loadMargin before and after the tested step, and has at
	// least fewestRequests.
	loadInterval   = 50 * time.Millisecond
	loadMargin     = 5 * time.Second
	fewestRequests = 150
)

// withLoad runs a step while requests are sent at a constant rate, and holds that no request fails. The load goes on for a while after
// the step: pods that end still have connections.
func (r *realStory) withLoad(t *testing.T, step func()) {
	t.Helper()
	request, err := harness.HelloRequest(t.Context(), r.on.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	load := harness.StartLoad(t.Context(), request, harness.HelloText, loadInterval, loadTimeout)
	stop := func() {
		report := load.Stop()
		t.Log(report)
		if report.Failed > 0 || report.Requests < fewestRequests {
			t.Errorf("%d of %d requests have failed, want none of at least %d", report.Failed, report.Requests, fewestRequests)
		}
	}
	defer stop() // also when the step fails
	time.Sleep(loadMargin)
	step()
	time.Sleep(loadMargin)
}

// upgrade takes Serving from 1.22 to 1.23 under a load of requests, with one replica of each workload.
func (r *realStory) upgrade(t *testing.T) {
	r.withLoad(t, func() {
		r.configure(t, map[string]any{"version": "1.23"})
		eventually(t, "the cluster goes up to 1.23", 3*time.Minute, r.on.runs("1.23."))
		available(t, r.Fleet, []api.Component{api.Serving}, r.on.Cluster)
		r.rolledOut(t)
	})
}

// rolledOut waits until every Deployment of Knative has only pods of the present spec, and none that ends.
func (r *realStory) rolledOut(t *testing.T) {
	t.Helper()
	eventually(t, "the Deployments of Knative are rolled out", 3*time.Minute, func(ctx context.Context) error {
		list, err := r.on.kube.AppsV1().Deployments(servingNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			d := &list.Items[i]
			if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != s.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("Deployment %s has status %+v", d.Name, d.Status)
			}
		}
		return nil
	})
}

// deleteActivator deletes an activator pod under load, as a drained node does. The activator buffers the requests to a Service with few pods,
// so that all requests of the load pass an activator.
func (r *realStory) deleteActivator(replicas int) func(t *testing.T) {
	return func(t *testing.T) {
		r.configure(t, map[string]any{"high-availability": map[string]any{"replicas": replicas}})
		pods := r.awaitActivators(t, replicas, "")
		r.rolledOut(t)
		uid := slices.Sorted(maps.Keys(pods))[0]
		r.withLoad(t, func() {
			start := time.Now()
			if err := r.on.kube.CoreV1().Pods(servingNamespace).Delete(t.Context(), pods[uid], metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			r.awaitActivators(t, replicas, uid)
			t.Logf("another activator pod was Ready after %s", time.Since(start).Round(100*time.Millisecond))
		})
	}
}

// awaitActivators waits for as many activator pods that are Ready, none with the UID, and returns the pods by UID.
func (r *realStory) awaitActivators(t *testing.T, replicas int, without types.UID) map[types.UID]string {
	t.Helper()
	var found map[types.UID]string
	eventually(t, fmt.Sprintf("%d activator pods are Ready", replicas), 3*time.Minute, func(ctx context.Context) error {
		pods, err := r.on.kube.CoreV1().Pods(servingNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=activator"})
		if err != nil {
			return err
		}
		found = map[types.UID]string{}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && isPodReady(p) {
				found[p.UID] = p.Name
			}
		}
		if len(found) != replicas || found[without] != "" {
			return fmt.Errorf("pods %v are Ready", found)
		}
		return nil
	})
	return found
}

// isPodReady reports whether the pod has condition Ready.
func isPodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
