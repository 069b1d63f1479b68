// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// configurationStatus is the status of a KnativeServing that configures many clusters.
type configurationStatus struct {
	ObservedGeneration int64                       `json:"observedGeneration"`
	Conditions         []metav1.Condition          `json:"conditions"`
	Rollout            fleetv1alpha1.RolloutStatus `json:"rollout"`
}

func readConfigurationStatus(u *unstructured.Unstructured) (configurationStatus, error) {
	var out configurationStatus
	fields, _, err := unstructured.NestedMap(u.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &out)
	}
	return out, err
}

// watchReadyConfiguration watches the default configuration until the test ends. A violation is a configuration that is Ready, or rolled
// out, at its generation before OCM has seen every cluster run the spec.
func watchReadyConfiguration(t *testing.T, m team) *watchedViolations {
	t.Helper()
	out := &watchedViolations{}
	out.followWatch(t, func(ctx context.Context) (watch.Interface, error) {
		return m.configs.Resource(api.Serving.Resource()).Namespace(harness.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
	}, func(ctx context.Context, e watch.Event) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		violation, err := m.findEarlyReady(ctx, u)
		if err != nil && ctx.Err() == nil {
			violation = err.Error()
		}
		if violation != "" && ctx.Err() == nil {
			out.mu.Lock()
			defer out.mu.Unlock()
			out.violations = append(out.violations, violation)
		}
	})
	return out
}

// findEarlyReady names a cluster that has not run the present spec of a configuration that is Ready or rolled out; empty without one.
func (m team) findEarlyReady(ctx context.Context, u *unstructured.Unstructured) (string, error) {
	status, err := readConfigurationStatus(u)
	if err != nil {
		return "", err
	}
	isDone := apimeta.IsStatusConditionTrue(status.Conditions, api.Ready) || apimeta.IsStatusConditionTrue(status.Conditions, api.RolledOut)
	if !isDone || status.ObservedGeneration != u.GetGeneration() {
		return "", nil
	}
	hash, err := hashOf(u)
	if err != nil {
		return "", err
	}
	for _, c := range m.Managed {
		_, completed, err := m.specHashesOf(ctx, c.Name)
		if err != nil {
			return "", err
		}
		if completed == hash {
			continue
		}
		now, err := m.readDefault(ctx)
		if err != nil || now.GetGeneration() != u.GetGeneration() {
			return "", err // the event is about an earlier spec
		}
		return fmt.Sprintf("the configuration is Ready or rolled out at generation %d, and %s has completed %q", u.GetGeneration(), c.Name, completed), nil
	}
	return "", nil
}

// countsClusters waits until the configuration reports the counts of a rollout, and whether the rollout has ended.
func (m team) countsClusters(t *testing.T, what string, ended metav1.ConditionStatus, isWanted func(fleetv1alpha1.RolloutStatus) bool) {
	t.Helper()
	eventually(t, what, 2*time.Minute, func(ctx context.Context) error {
		u, err := m.readDefault(ctx)
		if err != nil {
			return err
		}
		status, err := readConfigurationStatus(u)
		if err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(status.Conditions, api.RolledOut)
		if status.ObservedGeneration != u.GetGeneration() || c == nil || c.Status != ended || !isWanted(status.Rollout) {
			return fmt.Errorf("generation %d has status %+v", u.GetGeneration(), status)
		}
		return nil
	})
}
