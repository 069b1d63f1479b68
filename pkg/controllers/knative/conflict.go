// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
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
	// reported has the reportedSpec of each resource by its name.
	reported sync.Map
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
		c.reported.Delete(client.ObjectKeyFromObject(config))
		return nil
	}
	if last, _ := c.reported.Load(client.ObjectKeyFromObject(config)); last == reportedSpecOf(config) {
		return nil
	}
	if err := w.writeConflict(ctx, config, result.Message); err != nil {
		return err
	}
	c.reported.Store(client.ObjectKeyFromObject(config), reportedSpecOf(config))
	return nil
}

// writeConflict writes that the resource is not resolved and not ready. The other conditions stay: the Knative Operator may
// have written them.
func (w *StatusWriter) writeConflict(ctx context.Context, config *unstructured.Unstructured, message string) error {
	return w.writeConditions(ctx, config,
		metav1.Condition{
			Type: api.Ready, Status: metav1.ConditionFalse, Reason: api.ReasonConflict, Message: api.TargetClusterResolved + ": " + message,
		},
		metav1.Condition{Type: api.TargetClusterResolved, Status: metav1.ConditionFalse, Reason: api.ReasonConflict, Message: message})
}

// writeConditions writes conditions of a resource. The other conditions stay.
func (w *StatusWriter) writeConditions(ctx context.Context, config *unstructured.Unstructured, conditions ...metav1.Condition) error {
	last, err := readStatus(config)
	if err != nil {
		return err
	}
	now := last
	now.ObservedGeneration, now.Conditions, now.Rollout = config.GetGeneration(), slices.Clone(last.Conditions), nil
	for _, c := range conditions {
		apimeta.SetStatusCondition(&now.Conditions, c)
	}
	return w.writeStatus(ctx, config, last, now)
}

// reportOperatorFinalizer writes into a deleted resource without an installation that a finalizer of the Knative Operator holds the
// resource. The Knative Operator removes the finalizer as long as the Knative Operator runs.
func (r *Reconciler) reportOperatorFinalizer(ctx context.Context, config *unstructured.Unstructured) error {
	finalizer := operatorFinalizer(r.Component)
	if _, conflict := r.Finder.Conflict(); conflict || !slices.Contains(config.GetFinalizers(), finalizer) {
		return nil
	}
	return r.Status.writeRemovalWait(ctx, config, fmt.Sprintf(
		"this add-on has no installation of this resource any more; finalizer %q holds the resource, and the Knative Operator, which set the finalizer, does not run on this hub; "+
			"remove the finalizer: kubectl edit %s --namespace %s %s", finalizer, r.Component.Resource().Resource, config.GetNamespace(), config.GetName()))
}

// operatorFinalizer returns the finalizer that the Knative Operator sets on resources of the component.
func operatorFinalizer(c api.Component) string { return c.Resource().GroupResource().String() }

// writeRemovalWait writes the reason why the deletion of the resource waits into all conditions about the cluster. Condition
// TargetClusterResolved stays, because the end of a removal says nothing about the target.
func (w *StatusWriter) writeRemovalWait(ctx context.Context, config *unstructured.Unstructured, message string) error {
	var conditions []metav1.Condition
	for _, t := range api.ConditionTypes() {
		if t != api.TargetClusterResolved {
			conditions = append(conditions, metav1.Condition{Type: t, Status: metav1.ConditionUnknown, Reason: api.ReasonRemoving, Message: message})
		}
	}
	return w.writeConditions(ctx, config, conditions...)
}
