// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

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
	last, err := readStatus(config)
	if err != nil {
		return err
	}
	now := resourceStatus{
		ObservedGeneration: config.GetGeneration(), Version: last.Version, Conditions: slices.Clone(last.Conditions), Annotations: last.Annotations,
	}
	for _, t := range api.ConditionTypes() {
		if t != api.TargetClusterResolved {
			apimeta.SetStatusCondition(&now.Conditions, metav1.Condition{Type: t, Status: metav1.ConditionUnknown, Reason: api.ReasonRemoving, Message: message})
		}
	}
	return w.writeStatus(ctx, config, last, now)
}
