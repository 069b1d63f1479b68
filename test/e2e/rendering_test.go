// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// otherRendering makes a manager render every spec differently.
const otherRendering = "--keep-config-examples"

// renderingDenial is the message of the policy of denialOf.
const renderingDenial = "policy no-examples denies the change"

// denialOf returns a policy of a cluster that refuses a rendering: the object of the rule that the expression does not permit.
func denialOf(rule, expression string) []byte {
	return fmt.Appendf(nil, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-examples}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiVersions: [v1], operations: [CREATE, UPDATE], %s}
  validations:
  - {expression: %q, message: `+renderingDenial+`}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-examples}
spec: {policyName: no-examples, validationActions: [Deny]}
`, rule, expression)
}

const configDefaults = `apiGroups: [""], resources: [configmaps], resourceNames: [config-defaults]`

const (
	withoutExample = "!has(object.data) || !('_example' in object.data)"
	withExample    = "has(object.data) && '_example' in object.data"
)

// TestRenderings replaces the manager by a manager that renders the same spec differently. A cluster that refuses the rendering stops
// the rollout, across restarts of the manager; the clusters after it keep their works to the byte.
func TestRenderings(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 3, StatusSyncInterval: statusSync}, "--leader-elect=false")
	m := newTeam(t, f, "platform")
	m.createPlacement(t)
	available(t, f, []api.Component{api.Serving}, f.Managed...)
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(
		`{"type":"Placements","placements":[{"namespace":%q,"name":%q,"rolloutStrategy":{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"2s","progressDeadline":"60s","maxFailures":0}}}]}`,
		m.namespace, placementName))
	hash := m.specHash(t)
	eventually(t, "all clusters have completed the spec", 3*time.Minute, m.checkCompleted(hash, len(f.Managed)))

	t.Run("a cluster that refuses a new rendering stops the clusters after it", func(t *testing.T) { stopRendering(t, m, hash) })
	t.Run("the rollout continues when the cluster accepts the rendering", func(t *testing.T) { continueRendering(t, m) })
	t.Run("an annotation gives a rendering to all clusters at once", func(t *testing.T) { giveRenderingAtOnce(t, m) })
}

func stopRendering(t *testing.T, m team, hash string) {
	first, refusing, rest := m.Managed[0], m.Managed[1], m.Managed[2:]
	m.refuseRendering(t, refusing, withoutExample, `{"data":{"_example":"y"}}`)
	before := m.written(t, rest)
	m.runManager(t, otherRendering)
	m.awaitRendering(t, metav1.ConditionTrue, api.ReasonRenderingRuns, first)
	m.awaitRendering(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
	m.awaitRendering(t, metav1.ConditionFalse, api.ReasonRenderingWaits, rest...)
	m.awaitStop(t, refusing.Name)
	m.deleteStops(t)
	m.runManager(t, otherRendering)
	m.awaitStop(t, refusing.Name)
	m.awaitRendering(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
	m.awaitRendering(t, metav1.ConditionFalse, api.ReasonRenderingWaits, rest...)
	if diff := cmp.Diff(before, m.written(t, rest)); diff != "" {
		t.Errorf("works of waiting clusters were written (-before +after):\n%s", diff)
	}
	eventually(t, "OCM counts every cluster as complete", time.Minute, m.checkCompleted(hash, len(m.Managed)))
}

func continueRendering(t *testing.T, m team) {
	m.acceptRendering(t, m.Managed[1])
	m.awaitRendering(t, metav1.ConditionTrue, api.ReasonRenderingRuns, m.Managed...)
	var last time.Time
	for _, c := range m.Managed {
		at := m.readRendering(t.Context(), t, c).LastTransitionTime.Time
		if at.Before(last) {
			t.Errorf("%s runs the rendering since %s, and the cluster before since %s", c.Name, at, last)
		}
		last = at
	}
	settled(t, m.Fleet, api.Serving, m.Managed...)
}

func giveRenderingAtOnce(t *testing.T, m team) {
	if _, err := m.Command(t.Context(), "kubectl", "annotate", "clustermanagementaddon", "knative-serving", api.RenderingAnnotation+"="+api.RenderingImmediate); err != nil {
		t.Fatal(err)
	}
	refusing, before := m.Managed[0], m.readRendering(t.Context(), t, m.Managed[1])
	m.refuseRendering(t, refusing, withExample, `{"data":{"_example":null}}`)
	m.runManager(t)
	m.awaitRendering(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
	for _, c := range m.Managed[1:] {
		eventually(t, c.Name+" runs the other rendering", 3*time.Minute, func(ctx context.Context) error {
			if got := m.readRendering(ctx, t, c); got.Status != metav1.ConditionTrue || got.Message == before.Message {
				return fmt.Errorf("RenderingCurrent is %+v", got)
			}
			return nil
		})
	}
	m.awaitRendering(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
	m.acceptRendering(t, refusing)
	m.awaitRendering(t, metav1.ConditionTrue, api.ReasonRenderingRuns, refusing)
	settled(t, m.Fleet, api.Serving, m.Managed...)
}

// runManager replaces the manager by a manager with further arguments.
func (m team) runManager(t *testing.T, args ...string) {
	t.Helper()
	if err := errors.Join(m.Kill(harness.Manager), m.RunManager(t.Context(), harness.Manager, args...)); err != nil {
		t.Fatal(err)
	}
}

// refuseRendering makes the cluster refuse every change of a ConfigMap that the expression does not permit, such as the patch.
func (m team) refuseRendering(t *testing.T, c *lab.Cluster, expression, patch string) {
	t.Helper()
	if err := c.Apply(t.Context(), denialOf(configDefaults, expression)); err != nil {
		t.Fatal(err)
	}
	s := connect(t, c)
	eventually(t, "the policy is in force", time.Minute, func(ctx context.Context) error {
		_, err := s.kube.CoreV1().ConfigMaps("knative-serving").Patch(ctx, "config-defaults", types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return checkDenied(err, renderingDenial)
	})
}

// acceptRendering makes the cluster accept every rendering again.
func (m team) acceptRendering(t *testing.T, c *lab.Cluster) {
	t.Helper()
	_, err := m.Command(t.Context(), "kubectl", "--kubeconfig", c.Kubeconfig, "delete", "validatingadmissionpolicybinding", "no-examples")
	if err != nil {
		t.Fatal(err)
	}
}

func (m team) readRendering(ctx context.Context, t *testing.T, c *lab.Cluster) metav1.Condition {
	t.Helper()
	a, err := m.current(ctx, c)
	if err != nil || a == nil {
		return metav1.Condition{}
	}
	if found := apimeta.FindStatusCondition(a.Status.Conditions, api.RenderingCurrent); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// awaitRendering waits until condition RenderingCurrent of the add-on is as wanted on every cluster.
func (m team) awaitRendering(t *testing.T, status metav1.ConditionStatus, reason string, clusters ...*lab.Cluster) {
	t.Helper()
	for _, c := range clusters {
		eventually(t, fmt.Sprintf("RenderingCurrent on %s is %s", c.Name, reason), 3*time.Minute, func(ctx context.Context) error {
			if got := m.readRendering(ctx, t, c); got.Status != status || got.Reason != reason {
				return fmt.Errorf("it is %+v", got)
			}
			return nil
		})
	}
}

// renderingStopped is the reason of the Event that reports the stop of a rollout of a rendering.
const renderingStopped = "RenderingStopped"

// deleteStops deletes the Events that awaitStop reads. A restarted manager reports the stop again: the next Event tells that the manager has
// decided.
func (m team) deleteStops(t *testing.T) {
	t.Helper()
	if _, err := m.Command(t.Context(), "kubectl", "delete", "events", "--all-namespaces", "--field-selector", "reason="+renderingStopped); err != nil {
		t.Fatal(err)
	}
}

// awaitStop waits until an Event of the ClusterManagementAddOn reports that the rollout of a rendering stops at a cluster.
func (m team) awaitStop(t *testing.T, cluster string) {
	t.Helper()
	eventually(t, "Event "+renderingStopped, 2*time.Minute, func(ctx context.Context) error {
		out, err := m.Command(ctx, "kubectl", "get", "events", "--all-namespaces", "--field-selector", "reason="+renderingStopped, "--output", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, cluster) {
			err = fmt.Errorf("the Events say %q", out)
		}
		return err
	})
}
