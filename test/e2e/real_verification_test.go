// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab/realnode"
)

// unservedClass is an ingress class that no ingress of the cluster serves.
const unservedClass = "unserved.example.com"

// holdWave rolls an edit out whose ingress class nothing serves. All Deployments stay Available, and no Service of a user becomes Ready: the
// wave has to stop at the first cluster, which has the real node. The story plays Knative on the second cluster.
func (r *realStory) holdWave(t *testing.T) {
	first, second := r.Managed[0], r.Managed[1]
	m := r.newWaves(t)
	m.awaitVerified(t, first, api.ReasonVerificationSucceeded, "")
	reportVerification(t, connect(t, second), "True", "")
	good := m.specHash(t)
	eventually(t, "both clusters have completed the configuration", 3*time.Minute, m.checkCompleted(good, 2))

	r.configure(t, ingressClass(unservedClass))
	broken := m.specHash(t)
	m.awaitVerified(t, first, api.ReasonVerifying, "")
	r.on.awaitUnready(t)
	m.awaitNoWrites(t, first)
	m.only(t, broken, first)
	if err := r.on.allAvailable(t.Context()); err != nil {
		t.Errorf("the wave may stop because of a Deployment: %v", err)
	}
	if _, completed, err := m.specHashesOf(t.Context(), first.Name); err != nil || completed != good {
		t.Errorf("the first cluster has completed %.8s, want %.8s, error %v", completed, good, err)
	}

	r.configure(t, ingressClass(harness.KourierClass))
	m.awaitVerified(t, first, api.ReasonVerificationSucceeded, "")
	eventually(t, "both clusters have completed the former configuration", 3*time.Minute, m.checkCompleted(good, 2))
	r.on.answers(t)
}

// ingressClass is a patch of harness.SmallServing with another ingress class.
func ingressClass(class string) map[string]any {
	return map[string]any{"config": map[string]any{"network": map[string]any{"ingress-class": class}}}
}

// newWaves has a Placement select both clusters in waves of one, each verified by a Service with the image of the lab.
func (r *realStory) newWaves(t *testing.T) team {
	t.Helper()
	configs, err := dynamic.NewForConfig(r.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{api.VerificationAnnotation: api.VerificationService}},
		"spec":     map[string]any{"registry": map[string]any{"override": map[string]any{api.VerificationServiceName: realnode.HelloImage}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.servings.Patch(t.Context(), "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	m := team{Fleet: r.Fleet, namespace: harness.Namespace, configs: configs}
	m.bind(t)
	m.createPlacement(t)
	m.setRolloutStrategy(t, `{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"0s","progressDeadline":"10m","maxFailures":0}}`)
	return m
}

// awaitUnready waits until the Service of the verification has a Revision that runs, and no ingress.
func (s spoke) awaitUnready(t *testing.T) {
	t.Helper()
	eventually(t, "the Service of the verification has pods and no ingress", 2*time.Minute, func(ctx context.Context) error {
		u, err := s.verifications().Get(ctx, api.VerificationServiceName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !hasTrueCondition(u, "ConfigurationsReady") || hasTrueCondition(u, "RoutesReady") {
			return fmt.Errorf("the status is %v", u.Object["status"])
		}
		return nil
	})
}

// allAvailable returns an error unless every Deployment of Knative Serving is Available.
func (s spoke) allAvailable(ctx context.Context) error {
	list, err := s.kube.AppsV1().Deployments(servingNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return errors.New("there are no Deployments")
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.AvailableReplicas < *d.Spec.Replicas {
			return fmt.Errorf("Deployment %s has status %+v", d.Name, d.Status)
		}
	}
	return nil
}
