// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"slices"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// conflictReports writes into the conditions of a resource that the Knative Operator reconciles the resource, once for each
// generation and each revision of a KnativeFleet. The operator writes the same conditions, and two writers that insist would overwrite
// each other for ever.
type conflictReports struct {
	mu       sync.Mutex
	reported map[types.NamespacedName]reportedSpec
}

// reportedSpec is the spec of a resource that has a report.
type reportedSpec struct {
	uid        types.UID
	generation int64
	// fleetRevision is the revision of the KnativeFleet; empty for a resource that is no child.
	fleetRevision string
}

func reportedSpecOf(config *unstructured.Unstructured) reportedSpec {
	return reportedSpec{config.GetUID(), config.GetGeneration(), config.GetAnnotations()[api.FleetRevisionAnnotation]}
}

// reportConflict writes the conflict into a resource whose spec has no report yet. Any other result ends the conflict.
func (c *conflictReports) reportConflict(ctx context.Context, w *StatusWriter, config *unstructured.Unstructured, result resolve.Result) error {
	if result.Reason != api.ReasonConflict {
		c.forgetConflict(client.ObjectKeyFromObject(config))
		return nil
	}
	if c.isReported(config) {
		return nil
	}
	if err := w.writeConflict(ctx, config, result.Message); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported == nil {
		c.reported = map[types.NamespacedName]reportedSpec{}
	}
	c.reported[client.ObjectKeyFromObject(config)] = reportedSpecOf(config)
	return nil
}

func (c *conflictReports) isReported(config *unstructured.Unstructured) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reported[client.ObjectKeyFromObject(config)] == reportedSpecOf(config)
}

func (c *conflictReports) forgetConflict(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reported, name)
}

// writeConflict writes that the resource is not resolved and not ready. The other conditions stay: the Knative Operator may
// have written them.
func (w *StatusWriter) writeConflict(ctx context.Context, config *unstructured.Unstructured, message string) error {
	last, err := readStatus(config)
	if err != nil {
		return err
	}
	now := resourceStatus{
		ObservedGeneration: config.GetGeneration(), Version: last.Version, Conditions: slices.Clone(last.Conditions), Annotations: last.Annotations,
	}
	for _, condition := range []metav1.Condition{
		{Type: api.Ready, Message: api.TargetClusterResolved + ": " + message}, {Type: api.TargetClusterResolved, Message: message},
	} {
		condition.Status, condition.Reason = metav1.ConditionFalse, api.ReasonConflict
		apimeta.SetStatusCondition(&now.Conditions, condition)
	}
	return w.writeStatus(ctx, config, last, now)
}
