// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/rollout"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// listDirect returns the resources that this manager installs without a work agent, and whether the cluster of a resource waits for its
// turn. A resource whose status cannot be read is left out: the clusters of other namespaces do not wait for the resource.
func (r *Reconciler) listDirect(ctx context.Context, component api.Component) (configs []*unstructured.Unstructured, waiting bool, err error) {
	all, err := r.Configs[component].List(labels.Everything())
	if err != nil {
		return nil, false, fmt.Errorf("cannot list %ss: %w", component.Kind(), err)
	}
	for _, o := range all {
		config, ok := o.(*unstructured.Unstructured)
		if !ok || !isDirect(config) || config.GetDeletionTimestamp() != nil {
			continue
		}
		conditions, err := readConditions(config)
		if err != nil {
			log.FromContext(ctx).Error(err, "a resource takes no part in the rollout of a new rendering; correct the status of the resource")
			continue
		}
		waiting = waiting || apimeta.IsStatusConditionFalse(conditions, api.RenderingCurrent)
		configs = append(configs, config)
	}
	slices.SortFunc(configs, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String())
	})
	return configs, waiting, nil
}

// isDirect reports whether this manager installs a resource without a work agent. A resource without a reference belongs to the manager
// that installs on the hub itself.
func isDirect(config *unstructured.Unstructured) bool {
	_, refers := target.ReferenceOf(config)
	return refers && slices.Contains(config.GetFinalizers(), api.DirectFinalizer)
}

// readConditions returns the conditions of a KnativeServing or KnativeEventing.
func readConditions(config *unstructured.Unstructured) ([]metav1.Condition, error) {
	status, _, err := unstructured.NestedMap(config.Object, "status")
	var out struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(status, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the status of %s %q: %w", config.GetKind(), client.ObjectKeyFromObject(config), err)
	}
	return out.Conditions, nil
}

// readDirectMember returns the state of a cluster without a work agent. The report decides whether the cluster waits: the condition may
// be of the manager before. Only a cluster that had its turn for the present rendering takes part in the rollout afterwards.
func (r *Reconciler) readDirectMember(component api.Component, config *unstructured.Unstructured) (*member, error) {
	m := &member{component: component, config: config, Cluster: rollout.Cluster{Name: client.ObjectKeyFromObject(config).String(), Phase: rollout.Skipped}}
	conditions, err := readConditions(config)
	if err != nil {
		return nil, err
	}
	report, known := r.Direct[component].Report(client.ObjectKeyFromObject(config))
	m.rendering = report.Rendering
	turn := config.GetAnnotations()[api.RenderingTurnAnnotation]
	hadTurn := turn == report.Rendering
	switch {
	case !known:
		if mayProgress(conditions, turn) {
			m.pending, m.Phase, m.Since = true, rollout.Progressing, r.failingSince(report)
		}
	case report.Rendering == "": // the manager delivers nothing
	case report.Waits && !hadTurn:
		m.wait(conditions)
	case report.Waits: // the turn was given a moment ago, or the passes since fail
		m.Phase, m.Since = rollout.Progressing, r.failingSince(report)
	case hadTurn && apimeta.IsStatusConditionTrue(conditions, api.RenderingCurrent) && apimeta.IsStatusConditionFalse(conditions, api.TargetClusterResolved):
		// the cluster ran the rendering before the cluster became unreachable
	case hadTurn:
		m.Phase, m.Since = m.phaseOf(conditions, api.Ready, turn, r.Clock.Now())
	}
	return m, nil
}

// failingSince returns the time since which every pass over a resource has failed, so that progressDeadline counts; now when the last pass
// did not fail.
func (r *Reconciler) failingSince(report rollout.Report) time.Time {
	if report.FailingSince.IsZero() {
		return r.Clock.Now()
	}
	return report.FailingSince
}

// mayProgress reports whether a cluster without a report takes a place among the clusters that make progress: the cluster could be used
// before, or had a turn, maybe for the present rendering. No pass reports while the Knative Operator of the hub has the resources.
func mayProgress(conditions []metav1.Condition, turn string) bool {
	resolved := apimeta.FindStatusCondition(conditions, api.TargetClusterResolved)
	return resolved != nil && resolved.Reason != api.ReasonConflict && (resolved.Status == metav1.ConditionTrue || turn != "")
}

// giveDirectTurn records on the resource that the cluster may get its rendering.
func (r *Reconciler) giveDirectTurn(ctx context.Context, m *member) error {
	client := r.ConfigClient.Resource(m.component.Resource()).Namespace(m.config.GetNamespace())
	_, err := hub.Patch(ctx, client, m.config, func(changed *unstructured.Unstructured) {
		changed.SetAnnotations(labels.Merge(changed.GetAnnotations(), labels.Set{api.RenderingTurnAnnotation: m.rendering}))
	})
	return err
}
